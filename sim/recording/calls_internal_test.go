package recording

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// A response whose body breaks off is recorded with its error. The caller gets only the error, as
// the contract of http.RoundTripper demands.
func TestBrokenBody(t *testing.T) {
	t.Parallel()
	cut := errors.New("cut off")
	var out bytes.Buffer
	rec := &recording{out: bufio.NewWriter(&out)}
	recorder := &callRecorder{rec: rec, now: time.Now, next: roundTrip(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(io.MultiReader(strings.NewReader("half"), iotest.ErrReader(cut)))}, nil
	})}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://a.example/", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := recorder.RoundTrip(req) //nolint:bodyclose // there must be no response
	if resp != nil || !errors.Is(err, cut) {
		t.Errorf("%v, %v, want only the error %v", resp, err, cut)
	}
	if err := rec.flush(); err != nil || !strings.Contains(out.String(), `"text":"half"`) || !strings.Contains(out.String(), `"error":"cut off"`) {
		t.Errorf("%v, recorded %s", err, out.String())
	}
}
