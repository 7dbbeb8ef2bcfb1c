{ lib, stdenvNoCC, fetchurl, installShellFiles }:

let
  version = "0.1.0";
  sums = {
    x86_64-linux = "0000000000000000000000000000000000000000000000000000000000000000"; # x86_64
    aarch64-linux = "0000000000000000000000000000000000000000000000000000000000000000"; # aarch64
  };
  system = stdenvNoCC.hostPlatform.system;
  machine = stdenvNoCC.hostPlatform.parsed.cpu.name;
in
stdenvNoCC.mkDerivation {
  pname = "rxlab";
  inherit version;

  src = fetchurl {
    url = "RELEASE_URL/rxlab-${version}-${machine}-unknown-linux-gnu.tar.gz";
    sha256 = sums.${system} or (throw "rxlab: no release for ${system}");
  };

  nativeBuildInputs = [ installShellFiles ];
  dontStrip = true;

  installPhase = ''
    runHook preInstall
    install -Dm755 bin/rxlab $out/bin/rxlab
    installManPage share/man/man1/*
    installShellCompletion share/bash-completion/completions/rxlab share/fish/vendor_completions.d/rxlab.fish
    installShellCompletion --zsh share/zsh/site-functions/_rxlab
    mkdir -p $out/lib/systemd/system $out/share
    cp -r share/rxlab share/doc $out/share/
    for unit in $out/share/rxlab/systemd/*; do
      substitute $unit $out/lib/systemd/system/$(basename $unit) --replace /usr/bin/rxlab $out/bin/rxlab
    done
    runHook postInstall
  '';

  meta = {
    description = "Find and fix CPUs that are overloaded with network receive work";
    license = with lib.licenses; [ mit asl20 ];
    mainProgram = "rxlab";
    platforms = builtins.attrNames sums;
    sourceProvenance = [ lib.sourceTypes.binaryNativeCode ];
  };
}
