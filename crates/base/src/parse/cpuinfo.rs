//! `/proc/cpuinfo`: the model of the CPUs.

/// Model of the first CPU: its name, on Arm its implementer and part as numbers. `None` where the kernel prints neither.
pub fn cpu_model(text: &str) -> Option<String> {
    let value = |key: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once(':'));
        lines
            .find_map(|(name, value)| (name.trim() == key).then(|| value.trim()))
            .filter(|value| !value.is_empty())
    };
    let arm = || Some(format!("Arm {} part {}", value("CPU implementer")?, value("CPU part")?));
    value("model name").map(str::to_owned).or_else(arm).or_else(|| value("cpu").map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::cpu_model;

    #[test]
    fn the_model_of_each_architecture() {
        let x86 = "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel\t\t: 85\nmodel name\t: Intel(R) Xeon(R) Gold 6230\n\n";
        assert_eq!(cpu_model(x86).as_deref(), Some("Intel(R) Xeon(R) Gold 6230"));
        let arm = "processor\t: 0\nBogoMIPS\t: 243.75\nCPU implementer\t: 0x41\nCPU variant\t: 0x3\nCPU part\t: 0xd0c\n";
        assert_eq!(cpu_model(arm).as_deref(), Some("Arm 0x41 part 0xd0c"));
        let power = "processor\t: 0\ncpu\t\t: POWER9 (architected), altivec supported\n";
        assert_eq!(cpu_model(power).as_deref(), Some("POWER9 (architected), altivec supported"));
        for none in ["", "model name\n", "model name\t:\n", "CPU part\t: 0xd0c\n"] {
            assert_eq!(cpu_model(none), None, "{none}");
        }
    }
}
