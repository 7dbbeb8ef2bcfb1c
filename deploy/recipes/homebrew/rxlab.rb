class Rxlab < Formula
  desc "Find and fix CPUs that are overloaded with network receive work"
  homepage "RELEASE_URL"
  version "0.1.0"
  license any_of: ["MIT", "Apache-2.0"]

  depends_on :linux

  on_intel do
    url "RELEASE_URL/rxlab-0.1.0-x86_64-unknown-linux-gnu.tar.gz"
    sha256 "0000000000000000000000000000000000000000000000000000000000000000" # x86_64
  end
  on_arm do
    url "RELEASE_URL/rxlab-0.1.0-aarch64-unknown-linux-gnu.tar.gz"
    sha256 "0000000000000000000000000000000000000000000000000000000000000000" # aarch64
  end

  def install
    bin.install "bin/rxlab"
    man1.install Dir["share/man/man1/*"]
    bash_completion.install "share/bash-completion/completions/rxlab"
    zsh_completion.install "share/zsh/site-functions/_rxlab"
    fish_completion.install "share/fish/vendor_completions.d/rxlab.fish"
    pkgshare.install Dir["share/rxlab/*"]
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/rxlab --version")
  end
end
