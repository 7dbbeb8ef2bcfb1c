//! The tools: what each is for, what it takes, and the command line that it is.

use std::time::Duration;

use serde_json::{Map, Value, json};

use rxlab_base::units::parse_duration;
use rxlab_setting::Setting;

/// Longest time until an unconfirmed value goes back.
const LONGEST_DEADLINE: Duration = Duration::from_secs(600);

/// Longest trial or search.
const LONGEST_TRIAL: Duration = Duration::from_secs(600);

/// What is tried without permission: settings that choose CPUs for packets. With each value, packets are received. Others
/// interrupt nothing by themselves, but may by their value: a small limit, or a rule that drops.
const STEERING: [&str; 9] =
    ["irqbalance", "irq_affinity", "rss", "rps", "rfs_entries", "rfs", "xps_cpus", "xps_rxqs", "threaded"];

/// Largest table of flows that is tried without permission. The kernel allows 4096 times as much, which is gigabytes.
const MOST_FLOWS: u32 = 131_072;

/// A command that an agent can run.
#[derive(Debug)]
pub(super) struct Tool {
    pub(super) name: &'static str,
    what: &'static str,
    sets: Sets,
    takes: &'static [Argument],
    words: fn(&Arguments) -> Result<Words, String>,
}

/// Whether a tool sets values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sets {
    Nothing,
    /// While it runs.
    Meanwhile,
    /// After its end.
    Lasting,
}

/// What a tool can be given.
#[derive(Debug)]
struct Argument {
    name: &'static str,
    what: &'static str,
    kind: Kind,
    is_needed: bool,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Text,
    /// One or more.
    Texts,
    Switch,
}

const fn text(name: &'static str, what: &'static str) -> Argument {
    Argument { name, what, kind: Kind::Text, is_needed: false }
}

const fn needed(argument: Argument) -> Argument {
    Argument { is_needed: true, ..argument }
}

/// Of every tool.
const JSON: Argument = Argument {
    name: "json",
    what: "All data as JSON, instead of the screen.",
    kind: Kind::Switch,
    is_needed: false,
};

const ONLY: Argument = text("nic", "Only this interface.");

const SETTINGS: Argument = Argument {
    name: "settings",
    what: "Values, such as \"rps eth0/rx-0 = 2-7\".",
    kind: Kind::Texts,
    is_needed: true,
};

const TIME: Argument = text("time", "Time limit, such as 3m, which is the default; at most 10m.");

const DEADLINE: Argument =
    text("deadline", "When the values go back, such as 60s, which is the default; at most 10m.");

/// All tools, in the order in which they are used.
pub(super) const TOOLS: [Tool; 10] = [
    Tool {
        name: "doctor",
        what: "Find out which CPU has more packets to receive than time, where packets are lost, and why: samples the host, and \
               names causes and fixes. Begin with this.",
        sets: Sets::Nothing,
        takes: &[
            ONLY,
            text("sample", "Length of the sample, such as 10s; 5s without it."),
            text("at", "Look at a recorded time, such as '10 minutes ago', if `rxlab record` runs."),
        ],
        words: |given| {
            Ok(Words::of("doctor")
                .flag("nic", given, "nic")
                .flag("for", given, "sample")
                .flag("at", given, "at"))
        },
    },
    Tool {
        name: "show",
        what: "Show the receive path: interfaces, queues, interrupts and their CPUs, RPS, RFS, XPS, programs that listen.",
        sets: Sets::Nothing,
        takes: &[ONLY],
        words: |given| Ok(Words::of("show").flag("nic", given, "nic")),
    },
    Tool {
        name: "explain",
        what: "Explain a finding, a setting, a kernel counter or a driver. Without a name: all findings.",
        sets: Sets::Nothing,
        takes: &[text("name", "Such as one-core-hotspot, rps, ListenOverflows or ixgbe.")],
        words: |given| Ok(Words::of("explain").last(given, "name")),
    },
    Tool {
        name: "plan",
        what: "Propose settings for a purpose, with the reason for each. Sets nothing.",
        sets: Sets::Nothing,
        takes: &[
            text(
                "policy",
                "A policy, such as spread, numa-local or isolate, or a variable of one, such as rps or numa-local.irq. \
                 Without it, all proposals of spread.",
            ),
            ONLY,
        ],
        words: |given| Ok(Words::of("plan --predict").flag("nic", given, "nic").last(given, "policy")),
    },
    Tool {
        name: "predict",
        what: "Predict what values would do to each CPU, as ranges. Sets nothing.",
        sets: Sets::Nothing,
        takes: &[SETTINGS],
        words: |given| Ok(Words::of("plan --predict").set(given)),
    },
    Tool {
        name: "trial",
        what: "Show whether values help: switches them on and off in random order on the host's own traffic, for minutes, and puts \
               everything back. Settings that choose CPUs for packets can be tried: irqbalance, irq_affinity, rss, rps, rfs_entries, \
               rfs, xps_cpus, xps_rxqs, threaded; tables of up to 131072 flows. Others only with `rxlab mcp --allow-changes`.",
        sets: Sets::Meanwhile,
        takes: &[needed(text("nic", "The interface whose packets count.")), SETTINGS, TIME],
        words: |given| {
            given.are_allowed()?;
            let words = Words::of("trial run --live").flag("nic", given, "nic");
            Ok(words.time("time", given, &TIME, "3m", LONGEST_TRIAL)?.set(given))
        },
    },
    Tool {
        name: "status",
        what: "Show what is set by rxlab, and what other programs have changed since.",
        sets: Sets::Nothing,
        takes: &[],
        words: |_| Ok(Words::of("status")),
    },
    Tool {
        name: "apply",
        what: "Set values. They go back after the deadline unless a person runs `rxlab confirm` on the host.",
        sets: Sets::Lasting,
        takes: &[SETTINGS, DEADLINE],
        words: |given| {
            Ok(Words::of("apply --yes")
                .time("confirm", given, &DEADLINE, "60s", LONGEST_DEADLINE)?
                .set(given))
        },
    },
    Tool {
        name: "tune",
        what: "Find the best setting of the receive path on the host's own traffic, in minutes. Only what is proven to help is set, \
               and it goes back after the deadline unless a person runs `rxlab confirm` on the host.",
        sets: Sets::Lasting,
        takes: &[
            text("nic", "The interface; without it, that of the hottest CPU, or the busiest."),
            TIME,
            DEADLINE,
        ],
        words: |given| {
            let words = Words::of("tune --yes").flag("nic", given, "nic");
            let words = words.time("time", given, &TIME, "3m", LONGEST_TRIAL)?;
            words.time("confirm", given, &DEADLINE, "60s", LONGEST_DEADLINE)
        },
    },
    Tool {
        name: "undo",
        what: "Put back what rxlab has set, also what a person has confirmed.",
        sets: Sets::Lasting,
        takes: &[text("transaction", "A transaction, as `status` names it; without it, all.")],
        words: |given| Ok(Words::of("undo").last(given, "transaction")),
    },
];

impl Tool {
    /// True if what it sets lasts after its end.
    pub(super) fn changes(&self) -> bool {
        self.sets == Sets::Lasting
    }

    /// As `tools/list` says it.
    pub(super) fn described(&self) -> Value {
        let takes = || self.takes.iter().chain([&JSON]);
        let property = |argument: &Argument| {
            let mut property = match argument.kind {
                Kind::Text => json!({ "type": "string" }),
                Kind::Texts => json!({ "type": "array", "items": { "type": "string" }, "minItems": 1 }),
                Kind::Switch => json!({ "type": "boolean" }),
            };
            property["description"] = argument.what.into();
            (argument.name.to_owned(), property)
        };
        let needed: Vec<&str> =
            takes().filter(|argument| argument.is_needed).map(|argument| argument.name).collect();
        json!({
            "name": self.name,
            "description": self.what,
            "inputSchema": {
                "type": "object",
                "properties": takes().map(property).collect::<Map<_, _>>(),
                "required": needed,
                "additionalProperties": false,
            },
            "annotations": {
                "readOnlyHint": self.sets == Sets::Nothing,
                // Values are replaced, not added.
                "destructiveHint": self.sets != Sets::Nothing,
                "idempotentHint": self.sets == Sets::Nothing,
                "openWorldHint": false,
            },
        })
    }

    /// The words of its command line, and whether its answer is JSON; or what is wrong with the arguments.
    pub(super) fn words(
        &self,
        arguments: Value,
        allows_changes: bool,
    ) -> Result<(Vec<String>, bool), String> {
        let given = match arguments {
            Value::Null => Map::new(),
            Value::Object(given) => given,
            _ => return Err("`arguments` must be an object".to_owned()),
        };
        let takes = || self.takes.iter().chain([&JSON]);
        for (name, value) in &given {
            let argument = takes().find(|argument| argument.name == name);
            argument.ok_or_else(|| format!("{} takes no `{name}`", self.name))?.check(value)?;
        }
        if let Some(missing) =
            takes().find(|argument| argument.is_needed && !given.contains_key(argument.name))
        {
            return Err(format!("{} needs `{}`", self.name, missing.name));
        }
        let given = Arguments { given, allows_changes };
        let is_json = given.given.get(JSON.name) == Some(&Value::Bool(true));
        let mut words = (self.words)(&given)?;
        if is_json {
            words.flags.push("--json".to_owned());
        }
        Ok((words.all(), is_json))
    }
}

impl Argument {
    fn check(&self, value: &Value) -> Result<(), String> {
        let (is_right, what) = match self.kind {
            Kind::Text => (value.is_string(), "a string"),
            Kind::Texts => {
                let is_right =
                    |values: &Vec<Value>| !values.is_empty() && values.iter().all(Value::is_string);
                (value.as_array().is_some_and(is_right), "a list of strings")
            }
            Kind::Switch => (value.is_boolean(), "true or false"),
        };
        if is_right { Ok(()) } else { Err(format!("`{}` must be {what}", self.name)) }
    }
}

/// Arguments of a call, which are those that the tool takes.
struct Arguments {
    given: Map<String, Value>,
    /// The operator has allowed changes.
    allows_changes: bool,
}

impl Arguments {
    fn text(&self, name: &str) -> Option<&str> {
        self.given.get(name)?.as_str()
    }

    fn settings(&self) -> impl Iterator<Item = &str> {
        self.given
            .get(SETTINGS.name)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
    }

    /// Refuses settings that do more than choose CPUs, unless changes are allowed.
    fn are_allowed(&self) -> Result<(), String> {
        for text in self.settings().filter(|_| !self.allows_changes) {
            let setting: Setting = text.parse().map_err(|error| format!("{error}"))?;
            let Setting { knob, value, .. } = &setting;
            let is_table = ["rfs_entries", "rfs"].contains(&knob.as_str());
            let why = if !STEERING.contains(&knob.as_str()) {
                format!("`{knob}` may stop packets")
            } else if is_table && value != "off" && !value.parse().is_ok_and(|flows: u32| flows <= MOST_FLOWS)
            {
                format!("{value} flows may take too much memory")
            } else {
                continue;
            };
            return Err(format!("{why}: it is tried only with `rxlab mcp --allow-changes`"));
        }
        Ok(())
    }
}

/// Words of a command line. Values are joined to their flags or behind `--`, so that none is taken for a flag.
struct Words {
    flags: Vec<String>,
    last: Option<String>,
}

impl Words {
    fn of(command: &str) -> Self {
        Self { flags: command.split(' ').map(str::to_owned).collect(), last: None }
    }

    fn flag(mut self, flag: &str, given: &Arguments, name: &str) -> Self {
        self.flags.extend(given.text(name).map(|value| format!("--{flag}={value}")));
        self
    }

    fn set(mut self, given: &Arguments) -> Self {
        self.flags.extend(given.settings().map(|setting| format!("--set={setting}")));
        self
    }

    /// A time, which has a default and a limit.
    fn time(
        mut self,
        flag: &str,
        given: &Arguments,
        argument: &Argument,
        default: &str,
        longest: Duration,
    ) -> Result<Self, String> {
        let (name, text) = (argument.name, given.text(argument.name).unwrap_or(default));
        let time = parse_duration(text).map_err(|error| format!("`{name}`: {error}"))?;
        if time > longest {
            return Err(format!("`{name}`: {text} is longer than {} minutes", longest.as_secs() / 60));
        }
        self.flags.push(format!("--{flag}={text}"));
        Ok(self)
    }

    fn last(mut self, given: &Arguments, name: &str) -> Self {
        self.last = given.text(name).map(str::to_owned);
        self
    }

    fn all(mut self) -> Vec<String> {
        self.flags.extend(self.last.map(|last| ["--".to_owned(), last]).into_iter().flatten());
        self.flags
    }
}

#[cfg(test)]
mod tests {
    use super::{DEADLINE, LONGEST_DEADLINE, LONGEST_TRIAL, STEERING, TIME, TOOLS, Tool};
    use rxlab_setting::tunable::{Risk, risk_and_upkeep};
    use serde_json::{Value, json};

    fn tool(name: &str) -> &'static Tool {
        TOOLS.iter().find(|tool| tool.name == name).expect("a tool")
    }

    fn words(name: &str, arguments: Value) -> Result<String, String> {
        tool(name).words(arguments, false).map(|(words, _)| words.join(" "))
    }

    #[test]
    fn each_tool_is_a_command_line() {
        let set = json!(["rps eth0/rx-0 = 2-7"]);
        for (name, arguments, expected) in [
            (
                "doctor",
                json!({ "nic": "eth0", "sample": "9s", "json": true }),
                "doctor --nic=eth0 --for=9s --json",
            ),
            ("show", Value::Null, "show"),
            ("explain", json!({ "name": "rps" }), "explain -- rps"),
            ("plan", json!({ "policy": "numa-local" }), "plan --predict -- numa-local"),
            ("predict", json!({ "settings": set }), "plan --predict --set=rps eth0/rx-0 = 2-7"),
            (
                "trial",
                json!({ "nic": "eth0", "settings": set }),
                "trial run --live --nic=eth0 --time=3m --set=rps eth0/rx-0 = 2-7",
            ),
            ("status", json!({}), "status"),
            ("apply", json!({ "settings": set }), "apply --yes --confirm=60s --set=rps eth0/rx-0 = 2-7"),
            ("tune", json!({ "deadline": "5m" }), "tune --yes --time=3m --confirm=5m"),
            ("undo", json!({ "transaction": "000001-aaaa" }), "undo -- 000001-aaaa"),
        ] {
            assert_eq!(words(name, arguments).as_deref(), Ok(expected));
        }
    }

    #[test]
    fn no_argument_becomes_a_flag() {
        for (name, arguments) in [
            ("doctor", json!({ "nic": "--root=/tmp" })),
            ("explain", json!({ "name": "--help" })),
            ("plan", json!({ "policy": "-o/etc/passwd" })),
            ("undo", json!({ "transaction": "--force" })),
        ] {
            let (words, _) = tool(name).words(arguments, true).expect("taken");
            let flags = words.iter().take_while(|word| *word != "--").filter(|word| word.starts_with('-'));
            let known = |word: &String| word == "--predict" || word.starts_with("--nic=");
            assert!(flags.clone().all(known), "{words:?}");
        }
    }

    #[test]
    fn wrong_arguments_are_named() {
        let wrong = |name, arguments| words(name, arguments).expect_err("refused");
        assert_eq!(wrong("show", json!({ "interface": "eth0" })), "show takes no `interface`");
        assert_eq!(wrong("trial", json!({ "settings": ["rps eth0/rx-0 = 1"] })), "trial needs `nic`");
        assert_eq!(wrong("predict", json!({ "settings": [] })), "`settings` must be a list of strings");
        assert_eq!(wrong("doctor", json!({ "nic": 1 })), "`nic` must be a string");
        assert_eq!(wrong("show", json!([])), "`arguments` must be an object");
        assert_eq!(wrong("show", json!({ "json": 1 })), "`json` must be true or false");
        let long = json!({ "settings": ["rps eth0/rx-0 = 1"], "deadline": "11m" });
        assert_eq!(wrong("apply", long), "`deadline`: 11m is longer than 10 minutes");
        for (argument, longest) in [(TIME, LONGEST_TRIAL), (DEADLINE, LONGEST_DEADLINE)] {
            let limit = format!("at most {}m", longest.as_secs() / 60);
            assert!(argument.what.contains(&limit), "{}: {limit}", argument.what);
        }
    }

    #[test]
    fn without_permission_a_trial_only_chooses_cpus() {
        let what = tool("trial").what;
        for knob in STEERING {
            assert_eq!(risk_and_upkeep(knob, None).map(|(risk, _)| risk), Some(Risk::Safe), "{knob}");
            assert!(what.split([' ', ',', ';']).any(|word| word == knob), "{knob}");
        }
        for setting in [
            "channels eth0 = 2",
            "ntuple_rule eth0/rule-7 = tcp4 action -1",
            "nf_conntrack_max host = 1",
            "gro_flush_timeout eth0 = 10000000000",
            "affinity pid:1 = 0",
            "rfs_entries host = 536870912",
            "rfs eth0/rx-0 = 131073",
            "nonsense eth0 = 1",
        ] {
            let trial = json!({ "nic": "eth0", "settings": ["rps eth0/rx-0 = 2-7", setting] });
            let why = words("trial", trial.clone()).expect_err(setting);
            assert!(why.ends_with("it is tried only with `rxlab mcp --allow-changes`"), "{why}");
            assert!(tool("trial").words(trial, true).is_ok());
        }
        for setting in ["rfs_entries host = 131072", "rfs eth0/rx-0 = off", "rss eth0 = equal 2"] {
            assert!(words("trial", json!({ "nic": "eth0", "settings": [setting] })).is_ok());
        }
        assert!(what.contains(&super::MOST_FLOWS.to_string()));
    }

    /// The names of the arguments and their meaning reach the agent.
    #[test]
    fn tools_are_described() {
        let described = tool("apply").described();
        let properties = &described["inputSchema"]["properties"];
        assert_eq!(described["inputSchema"]["required"], json!(["settings"]));
        assert_eq!(described["inputSchema"]["additionalProperties"], json!(false));
        assert!(
            properties["deadline"]["description"].as_str().is_some_and(|text| text.contains("at most 10m"))
        );
        assert_eq!(properties["json"]["type"], "boolean");
        let hints = |name: &str| tool(name).described()["annotations"].clone();
        for name in ["trial", "apply", "tune", "undo"] {
            assert_eq!(
                (&hints(name)["readOnlyHint"], &hints(name)["destructiveHint"]),
                (&json!(false), &json!(true))
            );
        }
        let reading = TOOLS.iter().filter(|tool| tool.described()["annotations"]["readOnlyHint"] == true);
        assert_eq!(
            reading.map(|tool| tool.name).collect::<Vec<_>>().join(" "),
            "doctor show explain plan predict status"
        );
    }
}
