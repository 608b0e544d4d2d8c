package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.uber.org/zap"
)

// backendState is what in etcd's database must be consistent, with itself and
// with etcd's log. etcd trusts all of it. If it is inconsistent, etcd panics,
// now or when it compacts, or silently lacks what is missing.
//
// The bucket "key" has every write since the last compaction. Its keys are
// revisions, numbers that grow by one with each transaction, and places in the
// transaction. Its values say which version of which key was written. Of older
// writes only the newest of each key remains.
type backendState struct {
	last, place int64                  // of the newest write
	end         transaction            // the newest transaction
	versions    map[string]*keyVersion // of keys that exist or existed
	compacted   int64                  // older writes may be missing up to here
	missing     int64                  // some writes are missing up to here
	applied     uint64                 // index of the newest log entry in the database; 0 for none
}

// keyVersion is the newest write of a key; deleted is also set for an unknown key.
type keyVersion struct {
	created, version int64
	deleted          bool
}

// checkFiles verifies etcd's database and log before etcd opens them. So damage
// causes an error that names the file, and no panic and no silent loss. Without
// database and log it is a new store, and so is an empty database, which a killed
// first start leaves behind.
func checkFiles(dir string) error {
	path, logs := filepath.Join(dir, "member", "snap", "db"), filepath.Join(dir, "member", "wal")
	if info, err := os.Stat(path); (errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0) && !wal.Exist(logs) {
		return nil
	}
	b := backendState{last: 1, versions: map[string]*keyVersion{}} // etcd begins with revision 1
	err := verifyDatabase(path, b.take)
	if err == nil && b.missing > b.compacted {
		err = fmt.Errorf("revision %d is missing, or one before it", b.missing)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if len(b.versions) > 0 && !wal.Exist(logs) {
		return fmt.Errorf("%s: the log is missing", logs)
	}
	if b.applied == 0 {
		return nil
	}
	if err := b.follows(logs); err != nil {
		return fmt.Errorf("%s: %w", logs, err)
	}
	return nil
}

// take checks one pair of etcd's database. It does not compare the checksums of
// records, which happens when they are read.
func (b *backendState) take(bucket string, key, value []byte) error {
	switch bucket + "/" + string(key) {
	case "meta/consistent_index":
		return number(value, &b.applied)
	case "meta/term", "auth/authRevision":
		return number(value, new(uint64))
	case "meta/finishedCompactRev", "meta/scheduledCompactRev":
		if !isRevision(value) {
			return errors.New("it is not a revision")
		}
		b.compacted = max(b.compacted, int64(binary.BigEndian.Uint64(value)))
		return nil
	}
	switch bucket {
	case "key":
		return b.write(key, value)
	case "lease", "authUsers", "authRoles": // which Slipway never creates
		return fmt.Errorf("there is something in %s", bucket)
	}
	return nil
}

func number(value []byte, n *uint64) error {
	if len(value) != 8 {
		return errors.New("it is not a number")
	}
	*n = binary.BigEndian.Uint64(value)
	return nil
}

// isRevision reports whether a text is a revision and a place in etcd's form:
// two numbers separated by "_".
func isRevision(text []byte) bool {
	return len(text) == 8+1+8 && text[8] == '_' && text[0] < 0x80 && text[9] < 0x80
}

// write checks a write: no write may be missing before it, and it must continue
// the earlier writes of the same key. A "t" after the revision means deletion.
func (b *backendState) write(key, value []byte) error {
	revision := key
	deleted := len(key) > 0 && key[len(key)-1] == 't' && isRevision(key[:len(key)-1])
	if deleted {
		revision = key[:len(key)-1]
	}
	is, err := parseWrite(value)
	if err != nil || !isRevision(revision) || len(is.key) == 0 || is.lease != 0 {
		return errNoWrite
	}
	at, place := int64(binary.BigEndian.Uint64(revision)), int64(binary.BigEndian.Uint64(revision[9:]))
	b.follow(at, place)
	was := b.versions[string(is.key)]
	if was == nil {
		was = &keyVersion{deleted: true}
		b.versions[string(is.key)] = was
	}
	now := keyVersion{int64(is.created), int64(is.version), deleted}
	var follows bool
	switch {
	case deleted:
		follows = !was.deleted
	case int64(is.modified) != at || now.created > at || now.created < 1 || (now.created == at) != (now.version == 1):
		return fmt.Errorf("the write of revision %d says that it is another one", at)
	case was.deleted:
		follows = now.version == 1
	default:
		follows = now.created == was.created && now.version == was.version+1
	}
	if !follows {
		b.missing = max(b.missing, at)
	}
	*was = now
	b.end.add(is.key, is.value, deleted)
	return nil
}

// written is the content of a write's value, an mvccpb.KeyValue.
type written struct {
	key, value                        []byte
	created, modified, version, lease uint64
}

// parseWrite parses a value as mvccpb.KeyValue.Unmarshal does, without copying.
func parseWrite(text []byte) (w written, err error) {
	for len(text) > 0 {
		tag, n := binary.Uvarint(text)
		if n <= 0 {
			return w, errNoWrite
		}
		number, m := binary.Uvarint(text[n:])
		if m <= 0 {
			return w, errNoWrite
		}
		text = text[n+m:]
		if tag&7 == 2 && number > uint64(len(text)) {
			return w, errNoWrite
		}
		switch tag { // field << 3 | form: 0 for a number, 2 for bytes
		case 1<<3 | 2:
			w.key, text = text[:number], text[number:]
		case 2 << 3:
			w.created = number
		case 3 << 3:
			w.modified = number
		case 4 << 3:
			w.version = number
		case 5<<3 | 2:
			w.value, text = text[:number], text[number:]
		case 6 << 3:
			w.lease = number
		default:
			return w, errNoWrite
		}
	}
	return w, nil
}

var errNoWrite = errors.New("it is not a write of a key")

// transaction is what a transaction wrote. Its memory is reused.
type transaction struct {
	text   []byte
	writes []keyWrite
}

type keyWrite struct {
	key, value int // where key and value end
	deleted    bool
}

func (t *transaction) clear() { t.text, t.writes = t.text[:0], t.writes[:0] }

func (t *transaction) add(key, value []byte, deleted bool) {
	t.text = append(append(t.text, key...), value...)
	t.writes = append(t.writes, keyWrite{len(t.text) - len(value), len(t.text), deleted})
}

// each calls f for each write until f returns true.
func (t *transaction) each(f func(key, value string, deleted bool) bool) bool {
	from := 0
	for _, w := range t.writes {
		if f(string(t.text[from:w.key]), string(t.text[w.key:w.value]), w.deleted) {
			return true
		}
		from = w.value
	}
	return false
}

// follow notes a write's revision and place, and what is missing before it.
func (b *backendState) follow(at, place int64) {
	switch {
	case at == b.last && place == b.place+1:
	case at == b.last || place != 0:
		b.missing = max(b.missing, at)
	case at > b.last+1:
		b.missing = max(b.missing, at-1)
	}
	if at != b.last {
		b.end.clear()
	}
	b.last, b.place = at, place
}

// follows checks that the database matches the log. The log must have the
// newest entry that the database claims to contain, and the database the newest
// write of the log up to there. The rest of the log may have been torn during a
// write, which etcd repairs.
func (b *backendState) follows(logs string) error {
	last, entries, err := readLog(logs)
	switch {
	case err != nil:
		return err
	case last < b.applied:
		return fmt.Errorf("it ends at entry %d, and the database has entry %d of it", last, b.applied)
	case b.last <= b.compacted:
		return nil // what the newest write deleted may be gone now
	}
	for i := len(entries) - 1; i >= 0; i-- {
		if last--; last+1 > b.applied {
			continue
		}
		if known, has := b.has(entries[i]); has {
			return nil
		} else if known {
			return fmt.Errorf("the database does not have entry %d of it", last+1)
		}
	}
	return nil
}

// has reports whether the newest transaction is that of a log entry, and
// whether this is known. A transaction with conditions, or a deletion, may have
// written nothing.
func (b *backendState) has(entry []byte) (known, has bool) {
	var r etcdserverpb.InternalRaftRequest
	if r.Unmarshal(entry) != nil {
		return false, false // an older form, which writes no keys
	}
	ops := []*etcdserverpb.RequestOp{}
	switch {
	case r.Put != nil:
		ops = append(ops, &etcdserverpb.RequestOp{Request: &etcdserverpb.RequestOp_RequestPut{RequestPut: r.Put}})
	case r.DeleteRange != nil:
		ops = append(ops, &etcdserverpb.RequestOp{Request: &etcdserverpb.RequestOp_RequestDeleteRange{RequestDeleteRange: r.DeleteRange}})
	case r.Txn != nil:
		ops = r.Txn.Success
		if len(r.Txn.Compare) > 0 {
			ops = append(ops, r.Txn.Failure...)
		}
	}
	for _, op := range ops {
		if put := op.GetRequestPut(); put != nil {
			has = has || b.end.each(func(key, value string, deleted bool) bool {
				return !deleted && key == string(put.Key) && value == string(put.Value)
			})
			known = r.Txn == nil || len(r.Txn.Compare) == 0
		}
		if del := op.GetRequestDeleteRange(); del != nil {
			has = has || b.end.each(func(key, _ string, deleted bool) bool {
				return deleted && (key == string(del.Key) || key > string(del.Key) && key < string(del.RangeEnd))
			})
		}
	}
	return known, has
}

// readLog returns the newest entries of etcd's log, since its last snapshot, and
// the index of the last readable one.
func readLog(dir string) (last uint64, entries [][]byte, err error) {
	snaps, err := wal.ValidSnapshotEntries(zap.NewNop(), dir)
	if err != nil {
		return 0, nil, err
	}
	if len(snaps) == 0 {
		return 0, nil, errors.New("it has no beginning")
	}
	newest := snaps[len(snaps)-1]
	w, err := wal.OpenForRead(zap.NewNop(), dir, newest)
	if err != nil {
		return 0, nil, err
	}
	defer w.Close()
	_, _, all, err := w.ReadAll()
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return 0, nil, err
	}
	for _, e := range all {
		entries = append(entries, e.Data)
	}
	return newest.Index + uint64(len(all)), entries, nil
}
