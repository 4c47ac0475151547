// Command screen turns a capture of a terminal with its colours (tmux capture-pane -pe),
// read from stdin, into a picture (SVG) on stdout.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"html"
	"os"
	"strconv"
	"strings"

	"github.com/mattn/go-runewidth"
)

// The size of a cell, in pixels.
const (
	wide   = 8.4
	high   = 18.0
	margin = 14.0
)

// style is how a character looks: colours by their number of the sixteen, -1 for none.
type style struct {
	fore, back           int
	bold, faint, reverse bool
}

type cell struct {
	r     rune
	style style
}

// palette are the sixteen colours, and what is written on.
type palette struct {
	colours           [16]string
	back, fore, frame string
}

var palettes = map[string]palette{
	"dark": {
		[16]string{"#484f58", "#ff7b72", "#3fb950", "#d29922", "#58a6ff", "#bc8cff", "#39c5cf", "#b1bac4", "#848d97", "#ff8f87", "#56d364", "#e3b341", "#79c0ff", "#d2a8ff", "#56d4dd", "#f0f6fc"},
		"#0d1117", "#e6edf3", "#30363d",
	},
	"light": {
		[16]string{"#24292f", "#cf222e", "#116329", "#7d4e00", "#0969da", "#8250df", "#1b7c83", "#6e7781", "#6e7781", "#a40e26", "#1a7f37", "#633c01", "#218bff", "#a475f9", "#3192aa", "#ffffff"},
		"#ffffff", "#1f2328", "#d0d7de",
	},
	"solarized-dark":  {solarized, "#002b36", "#839496", "#073642"},
	"solarized-light": {solarized, "#fdf6e3", "#657b83", "#eee8d5"},
}

// solarized are the colours of a palette in which bright black is the dark background and
// most bright colours are greys.
var solarized = [16]string{
	"#073642", "#dc322f", "#859900", "#b58900", "#268bd2", "#d33682", "#2aa198", "#eee8d5",
	"#002b36", "#cb4b16", "#586e75", "#657b83", "#839496", "#6c71c4", "#93a1a1", "#fdf6e3",
}

func main() {
	name := flag.String("palette", "dark", "dark, light, solarized-dark or solarized-light")
	flag.Parse()
	var rows [][]cell
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<20)
	now := plain
	for in.Scan() {
		var row []cell
		row, now = parse(in.Text(), now)
		rows = append(rows, row)
	}
	draw(os.Stdout, rows, palettes[*name])
}

var plain = style{fore: -1, back: -1}

// parse reads a line with its escape sequences; a style goes on in the next one.
func parse(line string, now style) (cells []cell, then style) {
	for line != "" {
		if strings.HasPrefix(line, "\x1b[") {
			end := strings.IndexByte(line, 'm')
			now = now.with(line[2:end])
			line = line[end+1:]
			continue
		}
		r := []rune(line)[0]
		line = line[len(string(r)):]
		cells = append(cells, cell{r, now})
		if runewidth.RuneWidth(r) == 2 {
			cells = append(cells, cell{0, now})
		}
	}
	return cells, now
}

func (s style) with(codes string) style {
	for code := range strings.SplitSeq(codes, ";") {
		n, _ := strconv.Atoi(code)
		switch {
		case n == 0:
			s = plain
		case n == 1:
			s.bold = true
		case n == 2:
			s.faint = true
		case n == 7:
			s.reverse = true
		case n == 39:
			s.fore = -1
		case n == 49:
			s.back = -1
		case n >= 30 && n < 38:
			s.fore = n - 30
		case n >= 90 && n < 98:
			s.fore = n - 82
		case n >= 40 && n < 48:
			s.back = n - 40
		}
	}
	return s
}

func (p palette) of(s style) (fore, back string) {
	fore, back = p.fore, ""
	if s.fore >= 0 {
		fore = p.colours[s.fore]
	}
	if s.back >= 0 {
		back = p.colours[s.back]
		if s.back == 4 && p.colours[8] != solarized[8] {
			back = "#1f6feb" // what stands on it is white
		}
	}
	if s.faint {
		fore = mixed(fore, p.back)
	}
	if s.reverse {
		if back == "" {
			back = p.back
		}
		fore, back = back, fore
	}
	return fore, back
}

// mixed is a colour nearer to another one, as terminals draw what is faint.
func mixed(a, b string) string {
	out := "#"
	for at := 1; at < len(a); at += 2 {
		x, _ := strconv.ParseUint(a[at:at+2], 16, 8)
		y, _ := strconv.ParseUint(b[at:at+2], 16, 8)
		out += fmt.Sprintf("%02x", (3*x+2*y)/5)
	}
	return out
}

func draw(out *os.File, rows [][]cell, p palette) {
	columns := 0
	for _, row := range rows {
		columns = max(columns, len(row))
	}
	w, h := float64(columns)*wide+2*margin, float64(len(rows))*high+2*margin
	b := bufio.NewWriter(out)
	defer b.Flush()
	fmt.Fprintf(b, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" viewBox="0 0 %.0f %.0f">`+"\n", w, h, w, h)
	fmt.Fprintf(b, `<style>text{font:14px ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace;white-space:pre}.b{font-weight:bold}</style>`+"\n")
	fmt.Fprintf(b, `<rect x=".5" y=".5" width="%.0f" height="%.0f" rx="8" fill="%s" stroke="%s"/>`+"\n", w-1, h-1, p.back, p.frame)
	for y, row := range rows {
		p.grounds(b, y, row)
		p.texts(b, y, row)
	}
	fmt.Fprintln(b, "</svg>")
}

func (p palette) grounds(b *bufio.Writer, y int, row []cell) {
	for x := 0; x < len(row); {
		_, back := p.of(row[x].style)
		end := x
		for end < len(row) {
			if _, other := p.of(row[end].style); other != back {
				break
			}
			end++
		}
		if back != "" {
			fmt.Fprintf(b, `<rect x="%.1f" y="%.0f" width="%.1f" height="%.0f" fill="%s"/>`+"\n", left(x), top(y), float64(end-x)*wide, high, back)
		}
		x = end
	}
}

func left(x int) float64 { return margin + float64(x)*wide }
func top(y int) float64  { return margin + float64(y)*high }

// texts writes what looks alike at once; what is drawn in cells is a shape.
func (p palette) texts(b *bufio.Writer, y int, row []cell) {
	for x := 0; x < len(row); {
		c := row[x]
		fore, _ := p.of(c.style)
		end := x + 1
		switch {
		case c.r == ' ' || c.r == 0:
		case strings.ContainsRune("─━│┃╭╮╰╯▁▂▃▄▅▆▇█", c.r):
			for end < len(row) && row[end] == c && strings.ContainsRune("─━", c.r) {
				end++
			}
			shape(b, c.r, left(x), top(y), float64(end-x), fore)
		case c.r > '~':
			p.text(b, x, y, string(c.r), c.style)
		default:
			// Two spaces would be shown as one.
			for end < len(row) && row[end].style == c.style && row[end].r >= ' ' && row[end].r <= '~' &&
				(row[end].r != ' ' || end+1 < len(row) && row[end+1].r > ' ' && row[end+1].r <= '~' && row[end+1].style == c.style) {
				end++
			}
			var text []rune
			for _, c := range row[x:end] {
				text = append(text, c.r)
			}
			p.text(b, x, y, strings.TrimRight(string(text), " "), c.style)
		}
		x = end
	}
}

func (p palette) text(b *bufio.Writer, x, y int, text string, s style) {
	fore, _ := p.of(s)
	class, length := "", ""
	if s.bold {
		class = ` class="b"`
	}
	if n := len(text); n > 1 && text[0] <= '~' {
		length = fmt.Sprintf(` textLength="%.1f"`, float64(n)*wide)
	}
	fmt.Fprintf(b, `<text x="%.1f" y="%.0f" fill="%s"%s%s>%s</text>`+"\n", left(x), top(y)+13.5, fore, class, length, html.EscapeString(text))
}

// shape draws what has to meet its neighbours.
func shape(b *bufio.Writer, r rune, x, y, cells float64, colour string) {
	cx, cy := x+wide/2, y+high/2
	line := func(path string, width float64) {
		fmt.Fprintf(b, `<path d="%s" stroke="%s" stroke-width="%.1f" fill="none"/>`+"\n", path, colour, width)
	}
	switch r {
	case '─', '━':
		line(fmt.Sprintf("M%.1f %.1fh%.1f", x, cy, cells*wide), map[rune]float64{'─': 1, '━': 3}[r])
	case '│', '┃':
		line(fmt.Sprintf("M%.1f %.1fv%.1f", cx, y, high), map[rune]float64{'│': 1, '┃': 3}[r])
	case '╭':
		line(fmt.Sprintf("M%.1f %.1fV%.1fQ%.1f %.1f %.1f %.1fH%.1f", cx, y+high, cy+4, cx, cy, cx+4, cy, x+wide), 1)
	case '╮':
		line(fmt.Sprintf("M%.1f %.1fV%.1fQ%.1f %.1f %.1f %.1fH%.1f", cx, y+high, cy+4, cx, cy, cx-4, cy, x), 1)
	case '╰':
		line(fmt.Sprintf("M%.1f %.1fV%.1fQ%.1f %.1f %.1f %.1fH%.1f", cx, y, cy-4, cx, cy, cx+4, cy, x+wide), 1)
	case '╯':
		line(fmt.Sprintf("M%.1f %.1fV%.1fQ%.1f %.1f %.1f %.1fH%.1f", cx, y, cy-4, cx, cy, cx-4, cy, x), 1)
	default:
		part := float64(r-'▁'+1) / 8 * high
		fmt.Fprintf(b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`+"\n", x, y+high-part, wide, part, colour)
	}
}
