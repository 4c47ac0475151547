#!/usr/bin/env bash
# Makes the pictures of flunq top from real runs: ./testdata/pictures/top.sh [FLUNQ]
# It takes tmux, and a minute.
set -euo pipefail
flunq=${1:+$(realpath "$1")}
cd "$(dirname "$0")/../.."

here=$PWD/testdata/pictures
work=$(mktemp -d)
engine=
trap 'tmux -S "$work/tmux" kill-server 2>/dev/null || true; [ -z "$engine" ] || kill "$engine"; rm -rf "$work"' EXIT
go build -o "$work/screen" ./testdata/pictures/screen
if [ -z "$flunq" ]; then
	flunq=$work/flunq
	go build -o "$flunq" .
fi

export HOME=$work LC_ALL=C.UTF-8

# watch WIDTH HEIGHT ARGUMENTS…: flunq in a terminal of that size.
watch() {
	tmux -S "$work/tmux" kill-server 2>/dev/null && sleep 0.5
	rm -f "$work/tmux"
	tmux -S "$work/tmux" -u -f /dev/null new-session -d -x "$1" -y "$2" "$flunq" "${@:3}"
}
# press KEY…: by tmux' names for them, with time to look in between.
press() {
	for key in "$@"; do
		tmux -S "$work/tmux" send-keys "$key"
		sleep 0.7
	done
}
# picture NAME: of what is on the terminal.
picture() {
	tmux -S "$work/tmux" capture-pane -p -e -N | "$work/screen" >"$here/$1.svg"
}

# An engine that has something to do.
mkdir "$work/shop"
cp "$here/order.yaml" "$here/parcels.yaml" "$here/letter.yaml" "$work/shop"
"$flunq" dev "$work/shop" --mocks "$here/shop.mocks.yaml" --port 6399 >"$work/dev.log" 2>&1 &
engine=$!
for _ in $(seq 50); do grep -q 6399 "$work/dev.log" && break || sleep 0.1; done
export FLUNQ_REDIS_URL=redis://127.0.0.1:6399
start() { "$flunq" start "$1" --redis-url redis://127.0.0.1:6399 --id "$2" --input "$3" >/dev/null; }

for n in 1 2 3 4 5 6 7; do start shop.letter "letter-$n" '{}'; done
sleep 9
watch 120 34 top --redis-url redis://127.0.0.1:6399
for n in $(seq 101 130); do
	start shop.order "order-$n" "{\"order\": \"A-$n\"}"
	[ $((n % 3)) != 0 ] || start shop.parcels "parcel-$n" "{\"parcel\": \"$n\", \"items\": [\"lamp\", \"chair\"]}"
	sleep 0.$((RANDOM % 8 + 1))
done
picture top-overview
start shop.parcels parcel-A17 '{"parcel": "A17", "items": ["lamp", "chair", "desk"]}'
sleep 8
watch 120 24 top --redis-url redis://127.0.0.1:6399 --execution parcel-A17
sleep 2
picture top-execution

# A run whose time is moved.
cp "$here/order.mocks.yaml" "$work"
cd "$work"
watch 120 24 run shop/order.yaml --mocks order.mocks.yaml --input '{"order": "A-17"}' --tui
sleep 5
press Space :
tmux -S "$work/tmux" send-keys -l "seek 120h"
press Enter g Down Down Down Down Down Down Down
picture top-time
tmux -S "$work/tmux" kill-server
ls -l "$here"/top-*.svg
