package sim

import "testing"

// Documents come to what a second opinion says that they do.
func TestModelledDocuments(t *testing.T) {
	t.Parallel()
	with, known := offspring(), 0
	for n := range *documents * 3 {
		m, ok := modelOf(n, with)
		if !ok {
			continue
		}
		known++
		if wrong := m.wrong(try(t, m.cfg, Plan{})); len(wrong) > 0 {
			t.Errorf("document %d: %v\n%s", n, wrong, m.text)
		}
	}
	t.Logf("%d documents", known)
}
