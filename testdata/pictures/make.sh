#!/usr/bin/env bash
# Makes the pictures of the README from real runs: ./testdata/pictures/make.sh [FLUNQ]
# It takes a Chromium, tmux, and the fonts fonts-noto-core and fonts-dejavu-core.
set -euo pipefail
flunq=${1:+$(realpath "$1")}
cd "$(dirname "$0")/../.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ -z "$flunq" ]; then
	flunq=$work/flunq
	go build -o "$flunq" .
fi
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome)

# picture NAME WIDTH HEIGHT SCHEME: of the page $work/NAME.html (0 is dark, 1 is light).
picture() {
	"$browser" --headless=new --no-sandbox --disable-gpu --hide-scrollbars --virtual-time-budget=2000 \
		--user-data-dir="$work/browser" --blink-settings=preferredColorScheme="$4" --window-size="$2,$3" \
		--screenshot="$work/shot.png" "file://$work/$1.html" >/dev/null 2>&1
	mv "$work/shot.png" "testdata/pictures/$5"
}

here=testdata/pictures
"$flunq" run $here/order.yaml --mocks $here/order.mocks.yaml --input '{"order": "A-17"}' --report "$work/run.html" -q >/dev/null
"$flunq" sim --example order-saga --once 'POST https://pay.example/*' --seeds 20 --singles 200 --fail-fast --report "$work/sim.html" -q >/dev/null || [ $? = 4 ]

picture run 1280 1000 1 report.png
picture run 1280 1000 0 report-dark.png
picture sim 1280 960 1 report-sim.png
./testdata/pictures/top.sh "$flunq"
ls -l $here/*.png
