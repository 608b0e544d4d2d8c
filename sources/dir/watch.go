package dir

import (
	"context"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// settle is how long the directory must be quiet, because an editor that saves,
// or a checkout, causes many events.
const settle = 50 * time.Millisecond

// Changes sends a value once the directory is quiet after changes, until the
// context ends. It then closes the channel. If the system cannot watch the
// directory, Changes logs that and never sends a value.
func (s *Source) Changes(ctx context.Context) <-chan struct{} {
	changes := make(chan struct{}, 1)
	watcher, err := fsnotify.NewWatcher()
	if err == nil {
		err = watchAll(watcher, s.path)
	}
	if err != nil {
		s.log.Warn("directory not watched, changes are seen when it is polled", "path", s.path, "err", err)
	}
	go func() {
		defer close(changes)
		if watcher == nil {
			<-ctx.Done()
			return
		}
		defer watcher.Close()
		s.watch(ctx, watcher, changes)
	}()
	return changes
}

func (s *Source) watch(ctx context.Context, watcher *fsnotify.Watcher, changes chan<- struct{}) {
	quiet := time.NewTimer(settle)
	quiet.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-quiet.C:
			select {
			case changes <- struct{}{}:
			default: // a value is already waiting
			}
		case err := <-watcher.Errors: // such as too many events at once
			s.log.Warn("directory watch interrupted", "path", s.path, "err", err)
			quiet.Reset(settle)
		case event := <-watcher.Events:
			if skipped(event.Name) || event.Op == fsnotify.Chmod {
				continue
			}
			if event.Has(fsnotify.Create) { // it may be a folder with content
				if err := watchAll(watcher, event.Name); err != nil {
					s.log.Warn("directory not watched", "path", event.Name, "err", err)
				}
			}
			quiet.Reset(settle)
		}
	}
}

// watchAll watches a folder and those below it. It skips anything that is not a
// folder or no longer exists.
func watchAll(watcher *fsnotify.Watcher, root string) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || !d.IsDir():
			return nil
		case path != root && skipped(path):
			return fs.SkipDir
		}
		return watcher.Add(path)
	})
}
