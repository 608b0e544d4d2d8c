package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/slipway-gitops/slipway/engine/design/author"
	"github.com/slipway-gitops/slipway/engine/site"
)

// raiseEpochs raises the epochs of the derived credentials of an incident in the folder that its lines were written into,
// for the same commit. A form that cannot be edited safely is named, and left to the person.
func (a *app) raiseEpochs(ctx context.Context, f compromise, name string) error {
	all, err := a.incidents(ctx, f.orderFlags, name)
	if err != nil {
		return fmt.Errorf("the lines were written, but the epochs of derived credentials were not raised: %w", err)
	}
	said, err := raisedIn(f.write, all[0].Exposed)
	for _, line := range said {
		if err := a.out.Println(line); err != nil {
			return err
		}
	}
	return err
}

// raisedIn raises the epoch of each derived credential among some secrets, in the CUE files of a folder. It says
// what was raised, and what was not and why.
func raisedIn(folder string, exposed []site.Exposed) (said []string, err error) {
	paths, err := filepath.Glob(filepath.Join(folder, "*.cue"))
	if err != nil {
		return nil, err
	}
	files, modes := map[string][]byte{}, map[string]os.FileMode{}
	for _, path := range paths {
		info, err := os.Lstat(path)
		if err != nil {
			return nil, err
		}
		if name := info.Name(); !info.Mode().IsRegular() || name[0] == '_' || name[0] == '.' {
			continue // CUE does not read these names, and behind a link is a file of others
		}
		if files[path], err = os.ReadFile(path); err != nil {
			return nil, err
		}
		modes[path] = info.Mode()
	}
	for _, x := range exposed {
		if x.Epoch == 0 {
			continue
		}
		credential := site.CredentialOf(x.Secret)
		edited, why := author.RaiseEpoch(files, credential, x.Epoch)
		if why != "" {
			said = append(said, fmt.Sprintf("NOT raised: the epoch of credential %s, because %s. Raise it to %d by hand, in the same commit", credential, why, x.Epoch+1))
			continue
		}
		for _, path := range slices.Sorted(maps.Keys(edited)) {
			if bytes.Equal(files[path], edited[path]) {
				continue
			}
			if err := replaceFile(path, edited[path], modes[path]); err != nil {
				return said, err
			}
			files[path] = edited[path]
			said = append(said, fmt.Sprintf("raised the epoch of credential %s to %d in %s: commit it", credential, x.Epoch+1, path))
		}
	}
	return said, nil
}
