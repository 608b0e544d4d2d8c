package inside

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// Folder holds what Slipway must remember on a machine, under the root. It is not the daemon's state folder,
// because a bootstrap host can be a node of its site.
const Folder = "/var/lib/slipway-inside"

// These are the bounds of the stored earlier content, in bytes. Take refuses an item beyond them, which stays as it
// is.
const (
	// MaxBefore is for one item, and maxBeforeAll for all items together.
	MaxBefore    = 1 << 20
	maxBeforeAll = 8 << 20
	// The last spareBefore bytes are for items of at most littleBefore, so that many large files do not block an
	// account or the network.
	spareBefore  = 2 << 20
	littleBefore = 4 << 10
)

// Owned lists what Slipway made on a machine, and what was there before. It is in owned.json of Folder with mode
// 0600. It contains no private key.
type Owned struct {
	path string
	list list
	asks map[string][]string // the fields that a run requests, by the items' names in the list
}

type list struct {
	Items map[string]Entry `json:"items"` // by facet and key: "config/files./etc/motd"
}

// Entry is one item that Slipway made.
type Entry struct {
	// Before is what was there, in the facet's form; nil for nothing.
	Before json.RawMessage `json:"before,omitempty"`
	// Made is what we wrote, in the facet's form; nil if the facet does not need it.
	Made json.RawMessage `json:"made,omitempty"`
	// Asked are the names of fields, in order: those that the design requested when the item was last as designed,
	// and those that an unfinished run has requested since. A field that the design no longer names is restored.
	Asked []string `json:"asked,omitempty"`
}

// LoadOwned reads the list of the system under a root folder. An unreadable list is an error, because then nothing
// is known to be ours.
func LoadOwned(root string) (*Owned, error) {
	return LoadOwnedFrom(filepath.Join(root, Folder, "owned.json"))
}

// LoadOwnedFrom reads a list from another file: the list of what is put there once, and not kept.
func LoadOwnedFrom(path string) (*Owned, error) {
	o := &Owned{path: path, list: list{Items: map[string]Entry{}}}
	text, err := os.ReadFile(o.path)
	if errors.Is(err, fs.ErrNotExist) {
		return o, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &o.list)
	}
	if err != nil {
		return nil, fmt.Errorf("the list of what Slipway made, %s: %w", o.path, err)
	}
	if o.list.Items == nil {
		o.list.Items = map[string]Entry{}
	}
	for name, e := range o.list.Items {
		e.Before, e.Made = compact(e.Before), compact(e.Made)
		o.list.Items[name] = e
	}
	return o, nil
}

// compact removes the file's indentation, so that Note recognizes its own texts.
func compact(text json.RawMessage) json.RawMessage {
	var short bytes.Buffer
	if len(text) == 0 || json.Compact(&short, text) != nil {
		return text
	}
	return short.Bytes()
}

// Digest identifies the list; empty while nothing is owned.
func (o *Owned) Digest() string {
	if len(o.list.Items) == 0 {
		return ""
	}
	text, _ := json.Marshal(o.list)
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

// Path is the path of the list.
func (o *Owned) Path() string { return o.path }

// Keys are the owned keys of a facet, in order.
func (o *Owned) Keys(facet string) []string {
	var keys []string
	for _, name := range slices.Sorted(maps.Keys(o.list.Items)) {
		if rest, ok := cutFacet(name, facet); ok {
			keys = append(keys, rest)
		}
	}
	return keys
}

func cutFacet(name, facet string) (string, bool) {
	if len(name) > len(facet) && name[:len(facet)] == facet && name[len(facet)] == '/' {
		return name[len(facet)+1:], true
	}
	return "", false
}

// Entry returns the entry of an owned item.
func (o *Owned) Entry(facet, key string) (Entry, bool) {
	e, ok := o.list.Items[facet+"/"+key]
	return e, ok
}

// Take records that an item is ours, and what was there before. If the item is already ours, the earlier record
// stays. The record is on disk when Take returns.
func (o *Owned) Take(facet, key string, before json.RawMessage) error {
	if _, ours := o.list.Items[facet+"/"+key]; ours {
		return nil
	}
	if len(before) > MaxBefore {
		return tooLarge("%s: what is there is too large to be kept: %d bytes with what JSON adds, of %d. It is not replaced. Move it away, then Slipway puts the designed one there", key, len(before), MaxBefore)
	}
	room, kept := maxBeforeAll, o.kept()
	if len(before) > littleBefore {
		room -= spareBefore
	}
	if len(before) > 0 && kept+len(before) > room {
		return tooLarge("%s: what is there cannot be kept: it has %d bytes with what JSON adds, and %d of the %d bytes that Slipway keeps of one machine are taken. It is not replaced. "+
			"Move it away, then Slipway puts the designed one there", key, len(before), kept, room)
	}
	o.list.Items[facet+"/"+key] = Entry{Before: before, Asked: o.asks[facet+"/"+key]}
	return o.save()
}

// kept is the total size of the stored earlier content.
func (o *Owned) kept() (size int) {
	for _, e := range o.list.Items {
		size += len(e.Before)
	}
	return size
}

// tooLarge is the error for an item with too much earlier content: a person must decide.
func tooLarge(format string, args ...any) error {
	return &wire.Error{Class: wire.Refused, Text: fmt.Sprintf(format, args...)}
}

// Note stores what we have made of an owned item.
func (o *Owned) Note(facet, key string, made json.RawMessage) error {
	e, ours := o.list.Items[facet+"/"+key]
	if !ours {
		return fmt.Errorf("%s: not owned", key)
	}
	if string(e.Made) == string(made) {
		return nil
	}
	e.Made = made
	o.list.Items[facet+"/"+key] = e
	return o.save()
}

// Asked returns the names of the last requested fields of a facet's owned items, by key.
func (o *Owned) Asked(facet string) map[string][]string {
	all := map[string][]string{}
	for _, key := range o.Keys(facet) {
		if e, _ := o.Entry(facet, key); len(e.Asked) > 0 {
			all[key] = e.Asked
		}
	}
	return all
}

// Ask records the fields that a run is about to request, in addition to those requested before. They can then be
// restored even if the run is killed. For items that are not owned yet, Take records them.
func (o *Owned) Ask(facet string, items []item.Item) error {
	o.asks = map[string][]string{}
	both := make([]item.Item, 0, len(items))
	for _, i := range items {
		o.asks[facet+"/"+i.Key] = slices.Sorted(maps.Keys(i.Fields))
		fields := maps.Clone(i.Fields)
		e, _ := o.Entry(facet, i.Key)
		for _, name := range e.Asked {
			if _, has := fields[name]; !has {
				fields[name] = ""
			}
		}
		both = append(both, item.Item{Key: i.Key, Fields: fields})
	}
	return o.NoteAsked(facet, both)
}

// NoteAsked records the requested fields of a facet's owned items.
func (o *Owned) NoteAsked(facet string, items []item.Item) error {
	changed := false
	for _, i := range items {
		e, ours := o.Entry(facet, i.Key)
		asked := slices.Sorted(maps.Keys(i.Fields))
		if ours && !slices.Equal(e.Asked, asked) {
			e.Asked, changed = asked, true
			o.list.Items[facet+"/"+i.Key] = e
		}
	}
	if !changed {
		return nil
	}
	return o.save()
}

// Drop forgets an item after it was removed or restored.
func (o *Owned) Drop(facet, key string) error {
	if _, ours := o.list.Items[facet+"/"+key]; !ours {
		return nil
	}
	delete(o.list.Items, facet+"/"+key)
	return o.save()
}

func (o *Owned) save() error {
	text, err := json.MarshalIndent(o.list, "", "\t")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(o.path), 0o700); err != nil {
		return err
	}
	return WriteFile(o.path, text, 0o600)
}
