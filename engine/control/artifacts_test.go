package control

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/slipway-gitops/slipway/engine/artifact"
	"github.com/slipway-gitops/slipway/engine/site"
)

// keeping is a daemon that keeps artifacts.
type keeping struct {
	fake
	*artifact.Service
}

func (k *keeping) Artifacts() artifact.Keeper {
	if k.Service == nil {
		return nil
	}
	return k.Service
}

func keepArtifacts(t *testing.T) (k *artifact.Service, over artifact.Keeper, dir string) {
	t.Helper()
	dir = t.TempDir()
	named := func() (map[string]bool, error) { return map[string]bool{digest("kept"): true}, nil }
	s, err := artifact.OpenService(artifact.Config{Dir: dir, Space: 10 << 20, Named: named})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	socket, _ := serving(t, &keeping{Service: s})
	return s, dial(t, socket).Artifacts(), dir
}

func digest(content string) string {
	sum := sha256.Sum256([]byte(content))
	return hex.EncodeToString(sum[:])
}

func TestArtifactsCross(t *testing.T) {
	s, over, dir := keepArtifacts(t)
	ctx := t.Context()
	large := strings.Repeat("0123456789", 200_000)
	var told int64
	i, err := over.AddFile(ctx, iotest.OneByteReader(strings.NewReader("kept")), 4, digest("kept"), "kept.iso", nil)
	if err != nil || i.SHA256 != digest("kept") || i.Name != "kept.iso" {
		t.Errorf("added %+v, %v", i, err)
	}
	if i, err = over.AddFile(ctx, strings.NewReader(large), 0, "", "large.iso", func(n int64) { told = n }); err != nil || i.Size != 2_000_000 || told != i.Size {
		t.Errorf("added %+v, told of %d bytes, %v", i, told, err)
	}
	if i, err = over.AddFile(ctx, strings.NewReader(large), 0, digest(large), "again.iso", nil); err != nil || i.Name != "large.iso" {
		t.Errorf("added again: %+v, %v", i, err)
	}
	if _, err = over.AddFile(ctx, strings.NewReader("x"), 0, digest("y"), "x.iso", nil); !errors.Is(err, artifact.ErrMismatch) {
		t.Errorf("with another digest: %v", err)
	}
	if _, err = over.AddFile(ctx, io.MultiReader(strings.NewReader("x"), iotest.ErrReader(os.ErrPermission)), 0, "", "x.iso", nil); !errors.Is(err, os.ErrPermission) {
		t.Errorf("a file that cannot be read: %v", err)
	}
	if _, err = over.AddFile(ctx, strings.NewReader(strings.Repeat("x", 11<<20)), 11<<20, "", "x.iso", nil); !errors.Is(err, artifact.ErrNoRoom) {
		t.Errorf("one that is too large: %v", err)
	}
	images := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/x.iso" {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, "fetched")
	}))
	defer images.Close()
	if i, err = over.AddURL(ctx, artifact.File{URL: images.URL + "/x.iso"}, nil); err != nil || i.SHA256 != digest("fetched") {
		t.Errorf("fetched %+v, %v", i, err)
	}
	if _, err = over.AddURL(ctx, artifact.File{URL: images.URL + "/y.iso"}, nil); !errors.Is(err, artifact.ErrRefused) || !strings.Contains(err.Error(), "404") {
		t.Errorf("what is not there: %v", err)
	}
	l, err := over.Listing(ctx)
	if err != nil || len(l.Files) != 3 || l.Files[0].Name != "kept.iso" || !*l.Files[0].Needed || *l.Files[1].Needed || l.Used != 2_000_011 || l.Space != 10<<20 {
		t.Errorf("listed %+v, %v", l, err)
	}
	file := filepath.Join(dir, "files", digest("fetched"))
	if err := errors.Join(os.Chmod(file, 0o600), os.WriteFile(file, []byte("damaged"), 0o600)); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	err = over.Verify(ctx, func(int64, int64) {}, func(c artifact.Checked) { got[c.Name] = c.Got })
	if err != nil || len(got) != 3 || got["x.iso"] != digest("damaged") || got["kept.iso"] != digest("kept") {
		t.Errorf("verified %v, %v", got, err)
	}
	if gone, err := over.Collect(ctx, time.Hour, true); err != nil || len(gone) != 0 {
		t.Errorf("what was used: %v, %v", gone, err)
	}
	if gone, err := over.Collect(ctx, 0, false); err != nil || len(gone) != 1 || gone[0].Name != "large.iso" || len(s.List()) != 1 {
		t.Errorf("collected %v, %v", gone, err)
	}
}

// Without a store or a daemon the reason is told.
func TestArtifactsOfNobody(t *testing.T) {
	socket, _ := serving(t, &keeping{})
	if _, err := dial(t, socket).Artifacts().Listing(t.Context()); !errors.Is(err, site.ErrRefused) || !strings.Contains(err.Error(), "--observe") {
		t.Errorf("a daemon that keeps none: %v", err)
	}
	socket, _ = serving(t, &fake{})
	if _, err := dial(t, socket).Artifacts().AddFile(t.Context(), bytes.NewReader(nil), 0, "", "x", nil); !errors.Is(err, site.ErrRefused) || !strings.Contains(err.Error(), "no artifact store") {
		t.Errorf("one that cannot keep any: %v", err)
	}
	none := dial(t, Socket(t.TempDir())).Artifacts()
	if err := none.Verify(t.Context(), nil, nil); !errors.Is(err, ErrNoDaemon) {
		t.Errorf("no daemon: %v", err)
	}
	if _, err := none.Collect(t.Context(), 0, true); !errors.Is(err, ErrNoDaemon) {
		t.Errorf("no daemon: %v", err)
	}
}
