// Package report makes one HTML file of what happened in runs of a workflow: their
// timeline, the path through the workflow, the data at each step, and what went
// wrong. The file refers to nothing outside itself, and equal runs give equal bytes.
package report

// Report is what a file tells.
type Report struct {
	Verb    string // run, replay or sim
	Version string // of flunq
	Command string // that repeats it

	Verdict Verdict
	Facts   []Fact // about all of it
	Notes   []string

	Runs     []*Recording // the first is shown first
	Files    []File       // that were replayed, if there were several
	Findings []*Finding   // of a search
	Hints    []string     // likewise
}

// Verdict is what has come of it, in a word or a few.
type Verdict struct {
	Text string
	Mood Mood
}

// Mood is how a verdict is meant.
type Mood string

// The moods, which are also what their colours are called.
const (
	Good    Mood = "good"
	Bad     Mood = "bad"
	Careful Mood = "careful"
	Neutral Mood = "neutral"
)

// Fact is a name and what there is to say.
type Fact struct{ Name, Value string }

// File is a recording that was replayed.
type File struct {
	Name    string
	Verdict Verdict
	Text    string
}

// Difference is where a replay does not come to what is recorded, from both sides.
type Difference struct {
	Where              string
	Recorded, Replayed string
	Now                string // what the other side is called: replayed, or new
	Path               string // into the data
	RecordedValue      string
	ReplayedValue      string
	Frames             []Frame
	Hint               string

	Event          int    // of the recording, from 1 on; 0: none
	Execution, Run string // of the task that it is about
}

// Finding is a way in which runs of a search fail.
type Finding struct {
	Heading string
	Mood    Mood
	Rule    string
	Detail  string
	Counts  string // in how many runs, and with what
	Meaning string
	Story   []Line
	Sides   []Side // two orders, side by side
	Differ  []Change
	Repeat  string // the command that repeats it
	Runs    []int  // of the report, that show it
}

// Line is a line of a story.
type Line struct {
	Text  string
	Fault bool
}

// Side is one of two runs that went in different orders.
type Side struct {
	Head  string
	Steps []Step
}

// Step is something that happened in one of them.
type Step struct {
	At, Text string
	Marked   bool
}

// Change is a value that is usually another.
type Change struct{ Path, Usual, Here string }
