// Command svg draws what a terminal shows, read from standard input, as an SVG:
//
//	go run . run --example reminder --color always 2>&1 >/dev/null | go run ./testdata/svg >testdata/reminder.svg
package main

import (
	"bufio"
	"fmt"
	"html"
	"os"
	"regexp"
	"strings"
	"unicode/utf8"
)

// The measures of a line and a character, in pixels, and the margin around.
const (
	lineHeight = 20
	charWidth  = 8.43
	margin     = 16
)

var style = regexp.MustCompile("\x1b\\[([0-9;]*)m")

func main() {
	var lines []string
	widest := 0
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		line := in.Text()
		lines = append(lines, line)
		widest = max(widest, utf8.RuneCountInString(style.ReplaceAllString(line, "")))
	}
	width, height := int(float64(widest)*charWidth)+2*margin, len(lines)*lineHeight+2*margin
	fmt.Printf(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d">`+"\n", width, height, width, height)
	fmt.Printf(`<rect width="100%%" height="100%%" rx="8" fill="#16181d"/>` + "\n")
	fmt.Printf(`<g font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="14" fill="#d6d9e0" xml:space="preserve">` + "\n")
	for i, line := range lines {
		fmt.Printf(`<text x="%d" y="%d">%s</text>`+"\n", margin, margin+(i+1)*lineHeight-5, spans(line))
	}
	fmt.Println("</g>\n</svg>")
}

// spans writes a line with its colours.
func spans(line string) string {
	var out strings.Builder
	colour, at := "", 0
	write := func(text string) {
		text = html.EscapeString(text)
		if colour != "" && text != "" {
			text = `<tspan ` + colour + `>` + text + `</tspan>`
		}
		out.WriteString(text)
	}
	for _, m := range style.FindAllStringSubmatchIndex(line, -1) {
		write(line[at:m[0]])
		at = m[1]
		colour = map[string]string{
			"1": `font-weight="bold" fill="#ffffff"`, "31;1": `fill="#ff6b6b"`, "32": `fill="#7bd88f"`, "33": `fill="#f5c76a"`,
		}[line[m[2]:m[3]]]
	}
	write(line[at:])
	return out.String()
}
