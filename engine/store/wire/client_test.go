package wire_test

import (
	"errors"
	"io"
	"testing"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/store/wire"
)

// A lost connection is not hidden behind something that does not exist.
func TestExceptNil(t *testing.T) {
	t.Parallel()
	replies := func(errs ...error) (cmds []redis.Cmder, first error) {
		for _, err := range errs {
			cmd := redis.NewStringCmd(t.Context(), "get", "a")
			cmd.SetErr(err)
			cmds = append(cmds, cmd)
			if first == nil {
				first = err
			}
		}
		return cmds, first
	}
	for _, test := range []struct {
		errs []error
		want error
	}{
		{[]error{nil, nil}, nil},
		{[]error{nil, redis.Nil}, nil},
		{[]error{redis.Nil, io.EOF}, io.EOF},
		{[]error{io.EOF, redis.Nil}, io.EOF},
	} {
		if err := wire.ExceptNil(replies(test.errs...)); !errors.Is(err, test.want) {
			t.Errorf("%v: %v, want %v", test.errs, err, test.want)
		}
	}
}
