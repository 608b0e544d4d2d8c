package main

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
)

// What is in etcd's log (etcd, storage/wal): records, each after its length, in files that are sorted by name.
// A record of an entry has one of the raft protocol, whose fields before its data are three numbers.
const (
	walEntry  = 2
	entryData = 4<<3 | 2
)

// stamps are the times at which writes of records were first seen in a log, by the clock of this test.
type stamps struct {
	mu  sync.Mutex
	all map[[32]byte]time.Time
}

func stampKey(key, value string) [32]byte { return sha256.Sum256([]byte(key + "\x00" + value)) }

func (s *stamps) note(at time.Time, key, value []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := stampKey(string(key), string(value))
	if _, known := s.all[k]; !known {
		s.all[k] = at
	}
}

// of is when a value was written, zero if that was not seen.
func (s *stamps) of(key, value string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[stampKey(key, value)]
}

// follows reads the log of a member while it is written, until the context ends.
func (s *stamps) follows(ctx context.Context, m *member) {
	every := time.NewTicker(10 * time.Millisecond)
	defer every.Stop()
	l := walFile{stamps: s}
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
		names, _ := filepath.Glob(filepath.Join(m.state(), "records/member/member/wal/*.wal"))
		for l.read(); len(names) > 0 && l.name < names[len(names)-1]; l.read() {
			for _, name := range names {
				if name > l.name && l.open(name) == nil {
					break
				}
			}
		}
		if l.file != nil && ctx.Err() != nil {
			l.file.Close()
		}
	}
}

// walFile is a file of a log, read as far as it was written.
type walFile struct {
	*stamps
	name string
	file *os.File
	at   int64
}

func (l *walFile) open(name string) error {
	if l.file != nil {
		l.file.Close()
	}
	var err error
	l.name, l.at = name, 0
	l.file, err = os.Open(name)
	return err
}

// read reads the records that were added. One that is not whole yet is read the next time.
func (l *walFile) read() {
	for l.file != nil {
		var size [8]byte
		if _, err := l.file.ReadAt(size[:], l.at); err != nil {
			return
		}
		field := binary.LittleEndian.Uint64(size[:])
		length, pad := int64(field&^(0xff<<56)), int64(0)
		if field>>63 == 1 {
			pad = int64(field >> 56 & 7)
		}
		if length == 0 || length > 64<<20 {
			return
		}
		text := make([]byte, length)
		var r walpb.Record
		if _, err := l.file.ReadAt(text, l.at+8); err != nil || r.Unmarshal(text) != nil || r.Type == walEntry && l.entry(r.Data) != nil {
			return
		}
		l.at += 8 + length + pad
	}
}

// entry notes the writes in an entry of the log.
func (l *walFile) entry(text []byte) error {
	for range 3 {
		_, tag := binary.Uvarint(text)
		_, number := binary.Uvarint(text[max(tag, 0):])
		if tag <= 0 || number <= 0 {
			return io.ErrUnexpectedEOF
		}
		text = text[tag+number:]
	}
	if len(text) == 0 {
		return nil // etcd's leader has begun
	}
	length, n := binary.Uvarint(text[1:])
	if text[0] != entryData || n <= 0 || uint64(len(text)-1-n) < length {
		return errors.New("no data")
	}
	var r etcdserverpb.InternalRaftRequest
	if r.Unmarshal(text[1+n:][:length]) != nil {
		return nil // a change of the members
	}
	now := time.Now()
	if r.Put != nil {
		l.note(now, r.Put.Key, r.Put.Value)
	}
	l.txn(now, r.Txn)
	return nil
}

func (l *walFile) txn(now time.Time, t *etcdserverpb.TxnRequest) {
	for _, op := range append(t.GetSuccess(), t.GetFailure()...) {
		if p := op.GetRequestPut(); p != nil {
			l.note(now, p.Key, p.Value)
		}
		l.txn(now, op.GetRequestTxn())
	}
}
