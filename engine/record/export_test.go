package record

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// exported fills records with one of each kind, for two sites, and exports
// them.
func exported(t testing.TB) (s *Store, export []byte) {
	t.Helper()
	s = open(t, t.TempDir())
	ctx := t.Context()
	for _, name := range []string{"berlin", "paris/süd"} {
		b := s.Site(name)
		fill(t, b, 5)
		large := recorded(2)
		large.Last.Reason = strings.Repeat("x <&> ü ", maxValue/8)
		must(t, b.PutNode(ctx, "n00001", large))
		must(t, b.PutBook(ctx, Book{Records: "r1", Began: day}))
		must(t, b.PutAccounts(ctx, map[string]site.Account{"n00001": accountOf("n00001")}))
		must(t, b.Pause(ctx, &site.Hold{By: "anna", Since: day}))
		must(t, b.PutRollout(ctx, &site.RolloutStatus{Nodes: []string{"n00001"}, Since: day}))
		must(t, b.PutTook(ctx, "a/b", []site.Duration{1, 2}))
		must(t, b.AppendEvents(ctx, []site.Event{event("", 1), event("n00002", 2)}))
		must(t, b.PutSessions(ctx, "n00001", Sessions{site.Manager: {{Term: 1, ID: "/s/1"}}}))
		acquire(t, b, "a")
	}
	var out bytes.Buffer
	sum, err := s.Export(ctx, &out)
	must(t, err)
	if want := []string{"berlin", "paris/süd"}; !slices.Equal(sum.Sites, want) || sum.Records < 2*20 {
		t.Errorf("the summary is %+v", sum)
	}
	return s, out.Bytes()
}

func importOf(t testing.TB, dir string, r io.Reader, replace bool) (Summary, error) {
	t.Helper()
	return Import(t.Context(), dir, r, replace, quick)
}

func TestExportComesBack(t *testing.T) {
	s, export := exported(t)
	dir := filepath.Join(t.TempDir(), "new", "records")
	sum, err := importOf(t, dir, bytes.NewReader(export), false)
	must(t, err)
	if seen, err := Verify(bytes.NewReader(export)); err != nil || fmt.Sprint(seen) != fmt.Sprint(sum) {
		t.Errorf("verified %+v %v and imported %+v", seen, err, sum)
	}
	copied := open(t, dir)
	var again bytes.Buffer
	if more, err := copied.Export(t.Context(), &again); err != nil || more.Records != sum.Records {
		t.Errorf("exported again: %+v %v, want %+v", more, err, sum)
	}
	if diff := firstDifference(withoutBooks(export), withoutBooks(again.Bytes())); diff != "" {
		t.Error("the copy's export differs:", diff)
	}
	for _, name := range []string{"berlin", "paris/süd"} {
		was, is := load(t, s.Site(name)), load(t, copied.Site(name))
		was.Book = is.Book
		same(t, name, is, was)
		events, err := copied.Site(name).Events(t.Context(), "")
		if err != nil || len(events) != 1 {
			t.Errorf("%d events, %v", len(events), err)
		}
		if term := acquire(t, copied.Site(name), "b"); term.Number != 2 || term.Clean {
			t.Errorf("term %d, clean %t: want a second one that knows that the first was not released", term.Number, term.Clean)
		}
	}
}

// withoutBooks is an export without the records that an import makes anew, and
// without its last line, the digest of all.
func withoutBooks(export []byte) []byte {
	var kept []byte
	for line := range bytes.Lines(export) {
		if !bytes.Contains(line, []byte(`/ledger"`)) && !bytes.Contains(line, []byte(`"digest"`)) {
			kept = append(kept, line...)
		}
	}
	return kept
}

// What was done since an export is not in it: an approval by command may have
// been used up, and a site waits for a person.
func TestImportIsNotTrustedBlindly(t *testing.T) {
	for name, c := range map[string]struct {
		paused *site.Hold
		by     string
	}{
		"a site that goes on":    {nil, "slipway state import"},
		"a site that is paused":  {&site.Hold{By: "anna"}, "anna"},
		"a pause that will end":  {&site.Hold{By: "anna", Until: time.Now().Add(time.Hour)}, "slipway state import"},
		"a pause that has ended": {&site.Hold{By: "anna", Until: day}, "slipway state import"},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, t.TempDir())
			b := s.Site("berlin")
			fill(t, b, 1)
			must(t, b.PutBook(t.Context(), Book{Records: "r1", Began: day}))
			must(t, b.PutGranted(t.Context(), site.GrantedState{By: "anna", When: day, Granted: site.Granted{People: map[string][]string{"bob": {"lead"}}}}))
			must(t, b.PutAccounts(t.Context(), map[string]site.Account{"n1": accountOf("n1")}))
			must(t, b.Pause(t.Context(), c.paused))
			var export bytes.Buffer
			_, err := s.Export(t.Context(), &export)
			must(t, err)
			dir := filepath.Join(t.TempDir(), "records")
			_, err = importOf(t, dir, &export, false)
			must(t, err)
			snap := load(t, open(t, dir).Site("berlin"))
			if snap.Book.Records == "r1" || !snap.Book.Blank {
				t.Errorf("got %+v: what was approved counts on", snap.Book)
			}
			if !snap.Granted.Granted.IsEmpty() || snap.Granted.By != "" {
				t.Errorf("got %+v: who may do what counts on", snap.Granted)
			}
			if p := snap.Paused; p == nil || !p.Until.IsZero() || p.By != c.by {
				t.Errorf("paused %+v, want it without an end, by %s", p, c.by)
			}
		})
	}
}

// firstDifference compares the entries of two exports.
func firstDifference(a, b []byte) string {
	x, y := strings.Split(string(a), "\n"), strings.Split(string(b), "\n")
	for i := 1; i < min(len(x), len(y))-2; i++ { // without the header, which has a date, and the trailer
		if x[i] != y[i] && !strings.Contains(x[i], `/accepted"`) {
			return fmt.Sprintf("line %d: %.200s and %.200s", i+1, x[i], y[i])
		}
	}
	if len(x) != len(y) {
		return fmt.Sprintf("%d and %d lines", len(x), len(y))
	}
	return ""
}

func TestImportOnlyIntoAnEmptyDirectory(t *testing.T) {
	_, export := exported(t)
	s := open(t, filepath.Join(t.TempDir(), "records"))
	must(t, s.Site("rome").PutNode(t.Context(), "n1", recorded(1)))
	if _, err := importOf(t, s.dir, bytes.NewReader(export), false); err == nil || !strings.Contains(err.Error(), "--replace") {
		t.Errorf("got %v, want that there are records already", err)
	}
	if _, err := importOf(t, s.dir, bytes.NewReader(export), true); err == nil || !strings.Contains(err.Error(), "holds this state directory") {
		t.Errorf("got %v, want that a process holds it", err)
	}
	must(t, s.Close())
	_, err := importOf(t, s.dir, bytes.NewReader(export), true)
	must(t, err)
	s = open(t, s.dir)
	if n := len(load(t, s.Site("rome")).Nodes); n != 0 {
		t.Errorf("%d nodes of before", n)
	}
	if n := len(load(t, s.Site("berlin")).Nodes); n != 5 {
		t.Errorf("%d nodes, want 5", n)
	}
	left, err := os.ReadDir(filepath.Dir(s.dir))
	must(t, err)
	if len(left) != 1 {
		t.Errorf("%v are left beside the records", left)
	}
}

// TestSpoiltExport holds that an export of which anything is missing or other
// changes nothing.
func TestSpoiltExport(t *testing.T) {
	_, export := exported(t)
	lines := bytes.SplitAfter(export, []byte("\n"))
	join := func(parts ...[][]byte) []byte { return bytes.Join(slices.Concat(parts...), nil) }
	last := len(lines) - 2 // the trailer; what follows it is empty
	for name, c := range map[string]struct {
		export []byte
		says   string
	}{
		"empty":             {nil, "ends before its last line"},
		"another file":      {[]byte("apiVersion: v1\n"), "not a header"},
		"another JSON file": {[]byte("{}\n"), "not a header"},
		"cut off":           {export[:len(export)/2], "ends before its last line"},
		"without its end":   {join(lines[:last]), "ends before its last line"},
		"cut in its end":    {export[:len(export)-2], "ends before its last line"},
		"a line less":       {join(lines[:last-1], lines[last:]), "digest"},
		"a line twice":      {join(lines[:last], lines[last-1:]), "out of order"},
		"two in a row":      {join(lines, lines), "follows its last line"},
		"a bit is other":    {bytes.Replace(export, []byte(`"generation":1`), []byte(`"generation":0`), 1), "digest"},
		"newer form":        {bytes.Replace(export, []byte(`"slipwayExport":1`), []byte(`"slipwayExport":2`), 1), "newer slipway"},
		"newer records":     {bytes.Replace(export, []byte(`"records":`+version(0)), []byte(`"records":7`), 1), "newer slipway"},
		"endless line":      {append(slices.Clone(lines[0]), bytes.Repeat([]byte("a"), maxLine+1<<20)...), "longer than"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "records")
			_, err := importOf(t, dir, bytes.NewReader(c.export), false)
			if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "nothing was changed") {
				t.Errorf("got %v, want %q and that nothing was changed", err, c.says)
			}
			if left, _ := os.ReadDir(filepath.Dir(dir)); len(left) != 0 {
				t.Errorf("%v is left", left)
			}
		})
	}
}

// TestForeignRecords holds that an export that is whole is still not believed.
func TestForeignRecords(t *testing.T) {
	for _, entries := range [][]entry{
		{{Key: "/slipway/version", JSON: []byte(`9`)}},
		{{Key: "/slipway/v1//nodes/n1", JSON: []byte(`{}`)}},
		{{Key: "/slipway/v1/berlin/", JSON: []byte(`{}`)}},
		{{Key: "/slipway/v1/berlin/nodes/n1", JSON: []byte(`17`)}},
		{{Key: "/slipway/v1/berlin/nodes/n1"}},
		{{Key: "/slipway/v1/berlin/accepted", JSON: []byte(`{}`)}},
		{{Site: "berlin", Design: []byte(`{}`)}, {Key: "/slipway/v1/paris/accepted", JSON: []byte(`{}`)}},
		{{Site: "berlin", Design: []byte(`17`)}, {Key: "/slipway/v1/berlin/accepted", JSON: []byte(`{}`)}},
		{{Site: "berlin", Design: []byte(`{}`)}},
	} {
		var out bytes.Buffer
		w, err := newStreamWriter(&out, header{Export: 1, Records: 1})
		must(t, err)
		for _, e := range entries {
			must(t, w.write(e))
		}
		must(t, w.end())
		dir := filepath.Join(t.TempDir(), "records")
		if _, err := importOf(t, dir, &out, false); err == nil {
			t.Errorf("%+v was imported", entries)
		}
		if left, _ := os.ReadDir(filepath.Dir(dir)); len(left) != 0 {
			t.Errorf("%v is left", left)
		}
	}
}

func TestExportWhileTheDesignChanges(t *testing.T) {
	s := open(t, t.TempDir())
	b, ctx := s.Site("berlin"), t.Context()
	must(t, b.Accept(ctx, site.Revision{ID: "0"}, designOf(1)))
	ended := make(chan error)
	go func() {
		var err error
		for i := 1; i < 40 && err == nil; i++ {
			err = b.Accept(ctx, site.Revision{ID: fmt.Sprint(i)}, designOf(1+i%7))
		}
		ended <- err
	}()
	for {
		_, err := s.Export(ctx, io.Discard)
		must(t, err)
		select {
		case err := <-ended:
			must(t, err)
			return
		default:
		}
	}
}

// FuzzReadStream holds that whatever is read ends in an error or is whole.
func FuzzReadStream(f *testing.F) {
	var out bytes.Buffer
	w, err := newStreamWriter(&out, header{Export: 1, Records: 1})
	must(f, err)
	must(f, w.write(entry{Key: "/slipway/v1/berlin/nodes/n1", JSON: []byte(`{"a":1}`)}))
	must(f, w.write(entry{Key: "/slipway/v1/berlin/rollout/nodes", Packed: []byte(`[1]`)}))
	must(f, w.end())
	f.Add(out.Bytes())
	f.Add([]byte("{\"slipwayExport\":1,\"records\":1}\n{\"sha256\":\"\"}\n"))
	f.Fuzz(func(t *testing.T, export []byte) {
		var again bytes.Buffer
		var w *streamWriter
		err := readStream(bytes.NewReader(export),
			func(h header) (err error) { w, err = newStreamWriter(&again, h); return err },
			func(e entry) error { return w.write(e) })
		if err != nil {
			return
		}
		must(t, w.end())
		if n, m := bytes.Count(export, []byte("\n")), bytes.Count(again.Bytes(), []byte("\n")); n != m {
			t.Errorf("%d lines were read and %d written", n, m)
		}
	})
}

// TestExportToAFullDisk holds that the error of the writer is told.
func TestExportToAFullDisk(t *testing.T) {
	s := open(t, t.TempDir())
	fill(t, s.Site("berlin"), 50)
	full := errors.New("no space left")
	r, w := io.Pipe()
	r.CloseWithError(full)
	if _, err := s.Export(t.Context(), w); !errors.Is(err, full) {
		t.Errorf("got %v, want the writer's error", err)
	}
}

// interrupted is a reader that something happens to once it is read.
type interrupted struct {
	io.Reader
	by func()
}

func (r *interrupted) Read(p []byte) (int, error) {
	if r.by != nil {
		r.by()
		r.by = nil
	}
	return r.Reader.Read(p)
}

func TestNobodyOpensRecordsWhileTheyAreImported(t *testing.T) {
	_, export := exported(t)
	for _, there := range []bool{false, true} {
		dir := filepath.Join(t.TempDir(), "records")
		if there {
			must(t, os.Mkdir(dir, 0o700))
		}
		var opened error
		in := &interrupted{bytes.NewReader(export), func() {
			s, err := Open(t.Context(), dir, quick)
			if opened = err; err == nil {
				s.Close()
			}
		}}
		_, err := importOf(t, dir, in, false)
		must(t, err)
		if opened == nil || !strings.Contains(opened.Error(), "holds this state directory") {
			t.Errorf("records were opened in the middle of their import: %v", opened)
		}
		must(t, open(t, dir).Close())
	}
}

func TestImportThatFailsLeavesNothing(t *testing.T) {
	for _, there := range []bool{false, true} {
		parent := t.TempDir()
		dir := filepath.Join(parent, "records")
		if there {
			must(t, os.Mkdir(dir, 0o700))
		}
		if _, err := importOf(t, dir, strings.NewReader("nonsense"), false); err == nil {
			t.Fatal("nonsense was imported")
		}
		left, err := filepath.Glob(filepath.Join(parent, "*", "*"))
		must(t, err)
		if _, err := os.Stat(dir); len(left) > 0 || there != (err == nil) {
			t.Errorf("left behind: %v, the directory: %v", left, err)
		}
	}
}
