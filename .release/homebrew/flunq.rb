# Builds flunq from its repository: brew install --HEAD ./flunq.rb
class Flunq < Formula
  desc "Durable workflows in one binary"
  homepage "https://flunq.io"
  license "Apache-2.0"
  head "https://flunq.io/flunq.git", branch: "main"

  depends_on "go" => :build

  def install
    ENV["CGO_ENABLED"] = "0"
    system "go", "build", "-buildvcs=true", "-trimpath", "-tags", "grpcnotrace", *std_go_args(ldflags: "-s -w")
    system bin/"flunq", "man", "--quiet", man
    generate_completions_from_executable(bin/"flunq", "completion")
  end

  service do
    run [opt_bin/"flunq", "serve"]
    keep_alive true
  end

  test do
    assert_match '"status":"paid"', shell_output("#{bin}/flunq run --example reminder -q -o json")
  end
end
