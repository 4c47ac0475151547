package decide

import "encoding/json"

// snapshotHead begins every snapshot. Its number changes with the form of a State. If the number
// differs, Restore ignores the snapshot and the state is rebuilt from the history. Format 1 had no
// number and used Go's field names.
const snapshotHead = `{"format":2,`

// Snapshot encodes the state as JSON, for Restore.
func (s *State) Snapshot() ([]byte, error) {
	out, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	return append([]byte(snapshotHead), out[1:]...), nil
}
