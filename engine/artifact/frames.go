package artifact

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/slipway-gitops/slipway/engine/frames"
)

// An image of a whole disk is written to machines in frames (engine/frames), which are made from
// the fetched file. They are a file of the store like others, with their own digest. The folder
// frames/ maps the fetched file to them. The fetched file stays too, because the design names its
// digest. Both are needed as long as the design names it.

// Frames describes the file of frames made from an image of some form; false if there is none.
func (s *Store) Frames(digest, form string) (Info, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, ok := s.files[s.frames[framesKey(digest, form)]]
	return i, ok
}

// framesKey is the name of a file in the folder frames/.
func framesKey(digest, form string) string { return digest + "." + form }

// loadFrames reads the folder frames/, and removes entries with a missing file.
func (s *Store) loadFrames() error {
	entries, err := os.ReadDir(s.path("frames"))
	for _, e := range entries {
		text, rerr := os.ReadFile(s.path("frames", e.Name()))
		of, _, _ := strings.Cut(e.Name(), ".")
		its := strings.TrimSpace(string(text))
		_, has := s.files[its]
		if _, whole := s.files[of]; rerr != nil || !has || !whole {
			err = errors.Join(err, os.Remove(s.path("frames", e.Name())))
			continue
		}
		s.frames[e.Name()] = its
	}
	return err
}

// withFramesLocked adds the digests of the frames made from the named files.
func (s *Store) withFramesLocked(named map[string]bool) map[string]bool {
	all := map[string]bool{}
	maps.Copy(all, named)
	for key, its := range s.frames {
		if of, _, _ := strings.Cut(key, "."); named[of] {
			all[its] = true
		}
	}
	return all
}

// frame converts an image in the store to frames, unless that was done.
func (s *Store) frame(ctx context.Context, digest, form string, progress func(written int64)) (Info, error) {
	key := framesKey(digest, form)
	end, needed, err := s.begin(ctx, key)
	if err != nil {
		return Info{}, err
	}
	if needed {
		defer end()
	}
	if i, ok := s.Frames(digest, form); ok {
		return i, nil
	}
	f, image, err := s.Reader(digest)
	if err != nil {
		return Info{}, err
	}
	defer f.Close()
	p, err := s.newPart("new-" + rand.Text())
	if err != nil {
		return Info{}, err
	}
	defer p.abandon()
	if err := s.opts.Framer.run(ctx, f, form, &telling{p, progress}); err != nil {
		return Info{}, err
	}
	if err := p.isFrames(); err != nil {
		return Info{}, fmt.Errorf("the frames of %s: %w", image.Name, err)
	}
	its := hex.EncodeToString(p.sum.Sum(nil))
	i, ok := s.Get(its) // another file may have given the same frames
	if !ok {
		name := strings.TrimSuffix(image.Name, filepath.Ext(image.Name)) + ".frames"
		if i, err = p.complete(its, name, image.Source); err != nil {
			return Info{}, err
		}
	}
	if err := s.noteFrames(key, its); err != nil {
		return Info{}, err
	}
	return i, nil
}

// noteFrames notes which file has the frames of an image.
func (s *Store) noteFrames(key, its string) error {
	temp := s.path("partial", "new-"+rand.Text())
	err := writeSynced(temp, []byte(its+"\n"))
	if err == nil {
		err = os.Rename(temp, s.path("frames", key))
	}
	if err == nil {
		err = syncFolder(s.path("frames"))
	}
	if err != nil {
		if rerr := os.Remove(temp); !errors.Is(rerr, fs.ErrNotExist) {
			err = errors.Join(err, rerr)
		}
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.frames[key] = its
	return nil
}

// telling is a part that reports how much was written.
type telling struct {
	*part
	tell func(int64)
}

func (w *telling) Write(b []byte) (int, error) {
	n, err := w.part.Write(b)
	if w.tell != nil {
		w.tell(w.size)
	}
	return n, err
}

// isFrames checks that what another process wrote is a complete file of frames.
func (p *part) isFrames() error {
	read := func(at int64, n int) ([]byte, error) {
		if _, err := p.f.Seek(at, io.SeekStart); err != nil {
			return nil, err
		}
		b := make([]byte, n)
		_, err := io.ReadFull(p.f, b)
		return b, err
	}
	tail, err := read(max(0, p.size-int64(frames.TailBytes)), int(min(p.size, int64(frames.TailBytes))))
	if err != nil {
		return err
	}
	at, err := frames.ListAt(tail, p.size)
	if err != nil {
		return err
	}
	list, err := read(at, int(p.size-at))
	if err != nil {
		return err
	}
	_, err = frames.Parse(list, p.size)
	return err
}
