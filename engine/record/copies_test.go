package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/record/recordtest"
)

// digestNumber is a digest of a test.
func digestNumber(i int) string { return fmt.Sprintf("%064x", i) }

// Each controller writes what it has, also one that follows, and all read the same. Only the one that leads records
// artifacts, and one that has lost its term does not.
func TestCopies(t *testing.T) {
	t.Parallel()
	c := recordtest.StartCluster(t, 1, 0)
	a, b := join(t, c, "host a", c.Endpoints()), join(t, c, "host b", c.Endpoints())
	early := b.Copies("berlin")
	if s, err := early.Read(t.Context()); err != nil || len(s.Artifacts)+len(s.Holders) != 0 {
		t.Fatalf("before anybody has led: %+v %v", s, err)
	}
	if err := early.Tell(t.Context(), Holder{Name: "b"}, nil, nil); !errors.Is(err, ErrNotYet) {
		t.Fatalf("written before anybody has led: %v", err)
	}
	first, term, _ := a.lead()
	keep(t, term)
	var all []Artifact
	var digests []string
	for i := range 300 {
		all, digests = append(all, Artifact{SHA256: digestNumber(i), Name: "x.iso", Size: 5, Needed: i == 0, Added: time.Now()}), append(digests, digestNumber(i))
	}
	must(t, first.PutArtifacts(t.Context(), all...))
	must(t, a.Copies("berlin").Tell(t.Context(), Holder{Name: "a/1", Host: "host a", Address: "10.0.0.1:9482", Key: "k", Beat: 1}, digests, nil))
	must(t, early.Tell(t.Context(), Holder{Name: "b"}, digests[:2], nil))
	must(t, early.Tell(t.Context(), Holder{Name: "b", Beat: 2, Trouble: "no room"}, nil, digests[1:2]))
	s, err := early.Read(t.Context())
	must(t, err)
	if len(s.Artifacts) != 300 || !s.Artifacts[digests[0]].Needed || s.Artifacts[digests[1]].Needed || len(s.Gone) != 0 {
		t.Errorf("%d artifacts, gone %v", len(s.Artifacts), s.Gone)
	}
	if h := s.Holders["a/1"]; len(h.Has) != 300 || h.Key != "k" || h.Name != "a/1" {
		t.Errorf("a: %+v", h.Host)
	}
	if h := s.Holders["b"]; len(h.Has) != 1 || h.Beat != 2 || h.Trouble != "no room" || !slices.Equal(s.HoldersOf(digests[0]), []string{"a/1", "b"}) {
		t.Errorf("b: %+v", h)
	}
	must(t, first.DropHolders(t.Context(), "a/1"))
	must(t, first.DropArtifacts(t.Context(), digests[1:]...))
	must(t, term.Release(t.Context()))
	second, _, _ := b.lead()
	if err := first.PutArtifacts(t.Context(), all[1]); !errors.Is(err, ErrLost) {
		t.Errorf("one that leads no more records an artifact: %v", err)
	}
	must(t, a.Copies("berlin").Tell(t.Context(), Holder{Name: "a/1"}, nil, nil)) // it follows
	must(t, second.PutArtifacts(t.Context(), Artifact{SHA256: digests[0], Removed: time.Now()}))
	if s, err = a.Copies("berlin").Read(t.Context()); err != nil || len(s.Artifacts) != 1 || s.Artifacts[digests[0]].Removed.IsZero() || len(s.Holders["a/1"].Has) != 0 {
		t.Errorf("in the end: %+v %v", s, err)
	}
	must(t, b.checkRecords(t.Context()))
}

// A program whose records have another version writes nothing beside one that leads.
func TestCopiesOfAnotherVersion(t *testing.T) {
	t.Parallel()
	c := recordtest.StartCluster(t, 1, 0)
	a := join(t, c, "host a", c.Endpoints())
	_, term, _ := a.lead()
	keep(t, term)
	other := a.Copies("berlin")
	other.version = "1"
	if err := other.Tell(t.Context(), Holder{Name: "b"}, nil, nil); !errors.Is(err, ErrNotYet) {
		t.Errorf("written: %v", err)
	}
	own, err := Open(t.Context(), t.TempDir(), Options{NoSync: true})
	must(t, err)
	defer own.Close()
	if own.Copies("berlin") != nil {
		t.Error("a daemon with records of its own has copies elsewhere")
	}
}

// With members, who is none of them and who is a witness counts for nothing, from the moment of its removal.
func TestCopiesOfMembers(t *testing.T) {
	t.Parallel()
	all := hosts(t, 1)
	h := all[0]
	must(t, h.open())
	first, _ := h.lead()
	c := h.Copies("berlin")
	must(t, c.Tell(t.Context(), Holder{Name: h.address()}, []string{digestNumber(1)}, nil))
	must(t, c.Tell(t.Context(), Holder{Name: "10.0.0.9:2380"}, []string{digestNumber(1)}, nil))
	s, err := c.Read(t.Context())
	must(t, err)
	if len(s.Holders) != 1 || !slices.Equal(s.Gone, []string{"10.0.0.9:2380"}) || c.IsDaemon("10.0.0.9:2380") || !c.IsDaemon(h.address()) {
		t.Errorf("%+v", s)
	}
	other := recordtest.Free(t)
	must(t, h.AddMember(t.Context(), other, false))
	if !c.IsDaemon(other) {
		t.Error("a new daemon is none")
	}
	must(t, h.RemoveMember(t.Context(), other))
	if c.IsDaemon(other) {
		t.Error("a removed one is a daemon")
	}
	witness := recordtest.Free(t)
	must(t, h.AddMember(t.Context(), witness, true))
	if c.IsDaemon(witness) {
		t.Error("a witness has an artifact store")
	}
	must(t, first.DropHolders(t.Context(), s.Gone...))
	if s, err = c.Read(t.Context()); err != nil || len(s.Gone) != 0 {
		t.Errorf("%+v %v", s, err)
	}
}

// An import removes no file: what was collected before the export may have been added again since. It trusts no daemon's
// key either: the daemon may have been removed since.
func TestImportDistrustsCopies(t *testing.T) {
	s := open(t, t.TempDir())
	b := s.Site("berlin")
	fill(t, b, 1)
	must(t, b.PutArtifacts(t.Context(), Artifact{SHA256: digestNumber(1), Name: "kept.iso"}, Artifact{SHA256: digestNumber(2), Name: "gone.iso", Removed: day}))
	must(t, b.put(t.Context(), holdersKey+"a%2F1", Holder{Host: "host a", Key: "k"}))
	must(t, b.put(t.Context(), copiesKey+"a%2F1/"+digestNumber(1), true))
	var export bytes.Buffer
	_, err := s.Export(t.Context(), &export)
	must(t, err)
	dir := filepath.Join(t.TempDir(), "records")
	_, err = importOf(t, dir, &export, false)
	must(t, err)
	imported := open(t, dir).Site("berlin")
	var got []string
	for _, below := range []string{artifactsKey, holdersKey, copiesKey} {
		must(t, imported.each(t.Context(), below, func(rest string, value []byte) error {
			got = append(got, below+rest)
			var h Holder
			if below == holdersKey {
				must(t, json.Unmarshal(value, &h))
			}
			if h.Key != "" {
				t.Errorf("the key of %s is %q", rest, h.Key)
			}
			return nil
		}))
	}
	if want := []string{artifactsKey + digestNumber(1), holdersKey + "a%2F1", copiesKey + "a%2F1/" + digestNumber(1)}; !slices.Equal(got, want) {
		t.Errorf("records %v", got)
	}
}
