package cmd

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/spelling"
	"flunq.io/flunq/sim"
)

// readSecrets reads a file of secrets, a map by name.
func readSecrets(ctx context.Context, sh *shell, file string) (map[string]any, error) {
	text, err := readDocument(ctx, sh, file)
	if err != nil {
		return nil, err
	}
	v, err := dsl.ParseData(file, text)
	if err != nil {
		return nil, misusef("%s: %v", file, err)
	}
	secrets, ok := v.(map[string]any)
	if !ok {
		return nil, misusef("%s: want a map of secrets by name", file)
	}
	return secrets, nil
}

// checkSecrets refuses a run that needs a secret that is not given.
func (r *runner) checkSecrets(_ context.Context, cfg *sim.Config) error {
	if r.later {
		return nil
	}
	missing := false
	for _, def := range append([]*dsl.Definition{cfg.Definition}, cfg.With...) {
		if found := missingSecrets(def, r.names[def], cfg.Secrets, r.secrets); found != nil {
			found.Render(r.sh.Err, r.sh.errColor())
			missing = true
		}
	}
	if missing {
		return reported(exitMisuse)
	}
	return nil
}

// missingSecrets returns the secrets that a document names but that are not given, each with its
// position; nil if there are none.
func missingSecrets(def *dsl.Definition, name string, given map[string]any, file string) *dsl.Mistakes {
	var list []dsl.Mistake
	for _, use := range def.Secrets {
		if _, ok := given[use.Name]; ok {
			continue
		}
		m := dsl.Mistake{Pos: use.Pos, File: cmp.Or(name, def.ID()), Message: fmt.Sprintf("there is no secret %q", use.Name)}
		known := slices.Sorted(maps.Keys(given))
		switch guess := spelling.Word(use.Name, known); {
		case file == "":
			m.Suggestion = fmt.Sprintf("give it with --secrets FILE, a map by name such as {%s: …}", use.Name)
		case guess != "":
			m.Suggestion = fmt.Sprintf("did you mean %q, which is in %s?", guess, file)
		case len(known) == 0:
			m.Suggestion = "add it to " + file + ", which is empty"
		default:
			m.Suggestion = fmt.Sprintf("add it to %s, which has %s", file, strings.Join(known, ", "))
		}
		list = append(list, m)
	}
	if list == nil {
		return nil
	}
	return dsl.NewMistakes(def.Source, list)
}
