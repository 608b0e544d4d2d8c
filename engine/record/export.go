package record

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sys/unix"

	"github.com/slipway-gitops/slipway/engine/site"
)

const keysBelow = "/slipway/v1/"

// Summary describes the content of an export.
type Summary struct {
	Version int      `json:"version"` // of the layout of the records
	Sites   []string `json:"sites"`
	Records int      `json:"records"`
}

// count adds a record of a site.
func (s *Summary) count(b *Site) {
	name, _ := url.PathUnescape(b.name) // the escaping is our own
	if n := len(s.Sites); n == 0 || s.Sites[n-1] != name {
		s.Sites = append(s.Sites, name)
	}
	s.Records++
}

// Export writes all records of all sites as of one moment, with the content of
// files. The records may be in use meanwhile.
func (s *Store) Export(ctx context.Context, w io.Writer) (Summary, error) {
	s.exporting.Add(1) // so that no recorded file is dropped
	defer s.exporting.Add(-1)
	out, err := newStreamWriter(w, header{Export: exportVersion, Records: Version, Created: time.Now().UTC()})
	if err != nil {
		return Summary{}, err
	}
	x := exporter{ctx: ctx, store: s, out: out, summary: Summary{Version: Version}}
	if err := s.everything(ctx, func(kv keyValue) error { return x.record(kv) }); err != nil {
		return Summary{}, fmt.Errorf("export: %w", err)
	}
	return x.summary, out.end()
}

// Verify reads a whole export and describes its content.
func Verify(r io.Reader) (Summary, error) {
	var sum Summary
	err := readStream(r, func(h header) error { sum.Version = h.Records; return nil }, func(e entry) error {
		if e.Key == "" {
			return nil
		}
		b, _, err := (&Store{}).siteOf(e.Key)
		if err != nil {
			return spoilt("%w", err)
		}
		sum.count(b)
		return nil
	})
	if err != nil {
		return Summary{}, err
	}
	return sum, nil
}

type keyValue struct {
	key   string
	value []byte
}

// everything calls f for each record of every site, in order, as of one moment.
func (s *Store) everything(ctx context.Context, f func(keyValue) error) error {
	return s.stored(ctx, keysBelow, clientv3.GetPrefixRangeEnd(keysBelow), true, func(kv keyValue) (err error) {
		if kv.value, err = unseal(kv.key, kv.value); err != nil {
			return err
		}
		return f(kv)
	})
}

// stored calls f for each key in a range, in order, with its stored value,
// whatever its version. With atOnce the values are as of one moment, otherwise as
// of each page's reading.
func (s *Store) stored(ctx context.Context, from, to string, atOnce bool, f func(keyValue) error) error {
	const page = 256
	revision := int64(0)
	for {
		var got *clientv3.GetResponse
		if err := s.do(ctx, func(ctx context.Context) (err error) {
			got, err = s.kv.Get(ctx, from, clientv3.WithRange(to), clientv3.WithLimit(page), clientv3.WithRev(revision))
			return err
		}); err != nil {
			return err
		}
		if atOnce && revision == 0 {
			revision = got.Header.Revision
		}
		for _, kv := range got.Kvs {
			if err := f(keyValue{string(kv.Key), kv.Value}); err != nil {
				return err
			}
			from = string(kv.Key) + "\x00"
		}
		if !got.More {
			return nil
		}
	}
}

type exporter struct {
	ctx     context.Context
	store   *Store
	out     *streamWriter
	summary Summary
}

// record writes one record. Before the record that points to the design, it
// writes the design.
func (x *exporter) record(kv keyValue) error {
	b, rest, err := x.store.siteOf(kv.key)
	if err != nil {
		return err
	}
	x.summary.count(b)
	value, err := b.read(x.ctx, kv.value)
	if err != nil {
		return err
	}
	if rest == "accepted" {
		if err := x.design(b, value); err != nil {
			return err
		}
	}
	e := entry{Key: kv.key, JSON: value}
	if isPacked(value) {
		text, err := decompress(value)
		if err != nil {
			return damaged(err)
		}
		e = entry{Key: kv.key, Packed: text}
	}
	return x.out.write(e)
}

// isPacked reports whether a value is compressed: gzip begins with these bytes
// (RFC 1952 section 2.3.1), which JSON never does.
func isPacked(value []byte) bool { return bytes.HasPrefix(value, []byte{0x1f, 0x8b}) }

func (x *exporter) design(b *Site, value []byte) error {
	var a acceptance
	if err := json.Unmarshal(value, &a); err != nil {
		return damaged(err)
	}
	r, err := b.openFile(x.ctx, a.Design)
	if err != nil {
		return err
	}
	for dec := json.NewDecoder(r); ; {
		var part json.RawMessage
		if err := dec.Decode(&part); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return damaged(err)
		}
		if err := x.out.write(entry{Site: b.name, Design: part}); err != nil {
			return err
		}
	}
}

// siteOf returns the site of a key, and the rest of the key.
func (s *Store) siteOf(key string) (b *Site, rest string, err error) {
	below, ours := strings.CutPrefix(key, keysBelow)
	esc, rest, ok := strings.Cut(below, "/")
	name, err := url.PathUnescape(esc)
	if !ours || !ok || err != nil || rest == "" || esc == "" || url.PathEscape(name) != esc {
		return nil, "", fmt.Errorf("%q is not the key of a record", key)
	}
	return s.Site(name), rest, nil
}

// Import creates a state directory from an export. The directory must be absent
// or empty, unless replace is set, and no process may hold it. Import changes
// nothing before it has read the whole export, verified it, and loaded it as a
// daemon would. Then it exchanges the directory in one step.
func Import(ctx context.Context, dir string, r io.Reader, replace bool, opts Options) (Summary, error) {
	sum, err := importInto(ctx, dir, r, replace, opts)
	if err != nil {
		return Summary{}, fmt.Errorf("import into %s: %w", dir, err)
	}
	return sum, nil
}

func importInto(ctx context.Context, dir string, r io.Reader, replace bool, opts Options) (Summary, error) {
	dir = filepath.Clean(dir)
	if hasMember(dir) {
		return Summary{}, errors.New("it has the data of a member, which may be the last that knows of some writes: use `slipway member init --restore`, which keeps it, or move the records away yourself")
	}
	release, err := claim(dir, replace)
	if err != nil {
		return Summary{}, err
	}
	defer release()
	fresh, err := os.MkdirTemp(filepath.Dir(dir), filepath.Base(dir)+".import-*")
	if err != nil {
		return Summary{}, explain(err)
	}
	defer os.RemoveAll(fresh) // after the exchange it is the replaced directory
	sum, err := fillFrom(ctx, fresh, r, opts)
	if err != nil {
		return Summary{}, err
	}
	if of := opts.Of; of != "" && slices.ContainsFunc(sum.Sites, func(name string) bool { return name != of }) {
		return Summary{}, fmt.Errorf("the export has the records of %s, and not of site %s alone: name the file or the site that you mean. Nothing was changed", strings.Join(sum.Sites, ", "), of)
	}
	return sum, exchange(fresh, dir)
}

// claim creates the directory if needed, and locks it against daemons until release
// is called. A directory without records is then restored to its earlier state.
func claim(dir string, replace bool) (release func(), err error) {
	all, err := os.ReadDir(dir)
	missing := errors.Is(err, fs.ErrNotExist)
	if err != nil && !missing {
		return nil, explain(err)
	}
	empty := !slices.ContainsFunc(all, func(f fs.DirEntry) bool { return f.Name() != lockFile })
	if !empty && !replace {
		return nil, errors.New("there are records already: import into another state directory, or replace them knowingly with --replace")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, explain(err)
	}
	s := &Store{dir: dir}
	if err := s.hold(); err != nil {
		s.release()
		return nil, err
	}
	return func() {
		if there, err := os.ReadDir(dir); empty && err == nil && len(there) == 1 { // it was not exchanged
			os.Remove(filepath.Join(dir, lockFile))
		}
		if missing {
			os.Remove(dir) // fails if it has records now
		}
		s.release()
	}, nil
}

// fillFrom writes the records of an export into a new directory, and loads them.
func fillFrom(ctx context.Context, dir string, r io.Reader, opts Options) (Summary, error) {
	s, err := Open(ctx, dir, opts)
	if err != nil {
		return Summary{}, err
	}
	defer s.Close()
	return s.fill(ctx, r, true, opts)
}

// fill writes the records of an export into a store without records, and loads them. With older they
// are made harmless.
func (s *Store) fill(ctx context.Context, r io.Reader, older bool, opts Options) (Summary, error) {
	in := importer{ctx: ctx, store: s}
	if err := readStream(r, in.begin, in.take); err != nil {
		return Summary{}, err
	}
	if err := in.end(); err != nil {
		return Summary{}, err
	}
	if err := s.settleVersion(ctx, opts.steps()); err != nil {
		return Summary{}, err
	}
	for _, name := range in.summary.Sites {
		b := s.Site(name)
		snap, err := b.Load(ctx)
		if err != nil {
			return Summary{}, fmt.Errorf("the export is complete, but this slipway cannot read its records: %w", err)
		}
		if !older {
			continue
		}
		if err := b.distrust(ctx, snap); err != nil {
			return Summary{}, err
		}
	}
	return in.summary, nil
}

// distrust makes records from another time harmless, because they lack
// everything done since. It drops approvals, also of who may do what, what was done
// about proposals, and pending messages. Quarantines switch nothing off any more, because people may have
// ended them. It pauses the site until a person has read its plan. An
// existing pause counts only if it does not end by itself.
func (s *Site) distrust(ctx context.Context, snap Snapshot) error {
	book := NewBook(true)
	book.Claims, book.Cluster = snap.Book.Claims, snap.Book.Cluster // a daemon that acted since has another claim
	if err := s.PutBook(ctx, book); err != nil {
		return err
	}
	for _, p := range snap.Proposed {
		if err := s.PutProposed(ctx, Proposed{Number: p.Number}); err != nil {
			return err
		}
	}
	if err := s.forget(ctx, grantedKey); err != nil {
		return err
	}
	if err := s.distrustDelivered(ctx, snap.Delivered); err != nil {
		return err
	}
	if err := s.distrustCopies(ctx); err != nil {
		return err
	}
	for _, i := range snap.Incidents {
		if i.Acted.IsZero() || !i.Held.IsZero() {
			continue
		}
		i.Acted, i.Nodes, i.Waits = time.Time{}, nil, []string{"its records were imported: people may have ended it since"}
		if err := s.PutIncident(ctx, i); err != nil {
			return err
		}
	}
	for name, m := range snap.Nodes {
		r := m.Recorded
		if r.Quarantined == nil {
			continue
		}
		h := *r.Quarantined
		h.Imported, r.Quarantined = true, &h
		if err := s.PutNode(ctx, name, r); err != nil {
			return err
		}
	}
	messages, err := s.Messages(ctx)
	if err != nil {
		return err
	}
	for key := range messages {
		if err := s.PutMessage(ctx, key, nil); err != nil {
			return err
		}
	}
	if h := snap.Paused; h != nil && h.Until.IsZero() {
		return nil
	}
	return s.Pause(ctx, &site.Hold{By: "slipway state import", Since: time.Now(),
		Reason: "its records were imported and lack everything since the export; read `slipway plan`, then `slipway resume --all`"})
}

// exchange swaps a new directory with an existing one.
func exchange(fresh, dir string) error {
	if err := unix.Renameat2(unix.AT_FDCWD, fresh, unix.AT_FDCWD, dir, unix.RENAME_EXCHANGE); err != nil {
		return fmt.Errorf("exchange %s for the imported records: %w", dir, explain(err))
	}
	parent, err := os.Open(filepath.Dir(dir))
	if err != nil {
		return err
	}
	defer parent.Close()
	return parent.Sync()
}

// importer writes the content of an export.
type importer struct {
	ctx     context.Context
	store   *Store
	summary Summary
	last    string   // key of the last record
	design  []string // parts that no record points to yet
	of      string   // the site of these parts
	batch   batch
}

func (in *importer) begin(h header) error {
	in.summary.Version = h.Records
	_, err := in.store.kv.Put(in.ctx, versionKey, strconv.Itoa(h.Records))
	return err
}

func (in *importer) take(e entry) error {
	if len(e.Design) > 0 && e.Site != "" && e.Key == "" {
		return in.part(e)
	}
	value := []byte(e.JSON)
	if len(e.Packed) > 0 {
		value = compress(e.Packed)
	}
	b, rest, err := in.store.siteOf(e.Key)
	switch {
	case err != nil:
		return spoilt("%w", err)
	case len(e.JSON)+len(e.Packed) == 0 || len(e.JSON) > 0 && len(e.Packed) > 0:
		return spoilt("record %s has no value, or two", e.Key)
	case e.Key <= in.last:
		return spoilt("record %s is out of order", e.Key)
	}
	in.last = e.Key
	if rest == "accepted" {
		if value, err = in.accepted(b, value); err != nil {
			return err
		}
	}
	if len(in.design) > 0 {
		return spoilt("the design of %s has no record", in.of)
	}
	if in.batch.site == nil || in.batch.site.name != b.name {
		if err := in.end(); err != nil {
			return err
		}
		in.batch = batch{site: b}
	}
	in.summary.count(b)
	return in.batch.put(in.ctx, rest, value)
}

func (in *importer) part(e entry) error {
	if len(in.design) > 0 && in.of != e.Site {
		return spoilt("the design of %s has no record", in.of)
	}
	in.design, in.of = append(in.design, string(e.Design)), e.Site
	return nil
}

// accepted stores the design, and returns the record that points to it.
func (in *importer) accepted(b *Site, value []byte) ([]byte, error) {
	var a acceptance
	if err := json.Unmarshal(value, &a); err != nil {
		return nil, spoilt("%w", err)
	}
	if len(in.design) == 0 || in.of != b.name {
		return nil, spoilt("the design of %s is missing", b.name)
	}
	digest, err := b.saveFile(in.ctx, func(w io.Writer) error {
		for _, part := range in.design {
			if _, err := io.WriteString(w, part+"\n"); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	in.design, a.Design = slices.Delete(in.design, 0, len(in.design)), digest
	return json.Marshal(a)
}

// end writes the remaining records of a site.
func (in *importer) end() error {
	if len(in.design) > 0 {
		return spoilt("the design of %s has no record", in.of)
	}
	if in.batch.site == nil {
		return nil
	}
	return in.batch.send(in.ctx)
}
