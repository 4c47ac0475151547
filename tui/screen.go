package tui

import (
	"context"
	"time"

	tea "github.com/charmbracelet/bubbletea"
)

// screen is one of the places that one can be in. It is told everything by the
// model, and asks it for everything by the commands that it gives back.
type screen interface {
	// draw draws it into the whole of an area, as of the source's time.
	draw(a area, l look, now time.Time)
	// key takes a key as tea.KeyMsg.String() has it; what it does not handle means
	// what it means everywhere. Where time can be moved, the keys of the time bar
	// (space n p t T + - [ ]) do not get here unless the screen is typing.
	key(k string) (cmd tea.Cmd, handled bool)
	// take takes an answer of the source. Each screen sees the answers to all of
	// them, and knows its own.
	take(msg tea.Msg) tea.Cmd
	// refresh is what it wants to read now, nil if nothing. It is called some times
	// a second, by the machine's time, and not while the connection is lost.
	refresh(now time.Time) tea.Cmd
	// hints are its keys.
	hints() []hint
	// title says where one is.
	title() string
	// click is the mouse on a place of the area that was drawn into.
	click(x, y int, double bool) tea.Cmd
	// wheel scrolls.
	wheel(lines int)
}

// typist is a screen that may be typed into: while it is, it gets all the keys but
// ctrl+c.
type typist interface{ typing() bool }

// hint is a key and what it does. More are those that only `?` has room for.
type hint struct {
	keys, what string
	more       bool
}

// answer is a message of the source. The model looks at what failed, to say so when
// the connection is lost, and hands it on.
type answer interface{ failed() error }

// What a screen asks the model for, as messages that its commands yield.
type (
	wantAction struct{ Action }            // to be planned, confirmed and done
	wantMove   struct{ Move }              // of the source's time
	wantOpen   struct{ id string }         // an execution
	wantCopy   struct{ what, text string } // to the clipboard
	wantSay    struct {                    // a line at the bottom
		text string
		bad  bool
	}
	wantBack struct{}
)

// What the model tells the screens.
type (
	// timeMoved says that the source's time has been moved, maybe back: what was
	// read may not be so any more.
	timeMoved struct{ clock Clock }
	// thingsDone says that an action was carried out: what was read is old.
	thingsDone struct{}
)

// give is a command that yields a message.
func give(msg tea.Msg) tea.Cmd { return func() tea.Msg { return msg } }

// patience is how long an answer of the source is waited for.
const patience = 10 * time.Second

// asking is a question that the model is to have asked, outside of its loop.
type asking struct {
	limit    time.Duration
	question func(ctx context.Context) tea.Msg
}

// answer waits for the answer.
func (a asking) answer() tea.Msg {
	ctx, done := context.WithTimeout(context.Background(), a.limit) //nolint:forbidigo // a command ends by its deadline
	defer done()
	return a.question(ctx)
}

// ask is a command that has the source asked, with a deadline. The command itself does
// not wait: what screens give back is called within the loop, so that what they want
// of the model has come true before the next key.
func ask(question func(ctx context.Context) tea.Msg) tea.Cmd {
	return give(asking{patience, question})
}
