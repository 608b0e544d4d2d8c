package inside

import "encoding/json"

// Entries are the items of one facet in the list of what Slipway made. The previous and the new content are values
// of the facet's own types.
type Entries struct {
	Owned *Owned
	Facet string
	// Step is called before each write of the list, with its purpose. An error stops the write. It may be nil.
	Step func(what string) error
}

// Take makes an item owned before its first write. It changes nothing if the item is already owned.
func (e Entries) Take(key string, before any) error {
	if _, ours := e.Owned.Entry(e.Facet, key); ours {
		return nil
	}
	text, err := json.Marshal(before)
	if err == nil {
		err = e.step("own " + key)
	}
	if err != nil {
		return err
	}
	return e.Owned.Take(e.Facet, key, text)
}

// Note stores what was made of an owned item.
func (e Entries) Note(key string, made any) error {
	text, err := json.Marshal(made)
	if err != nil {
		return err
	}
	if is, _ := e.Owned.Entry(e.Facet, key); string(is.Made) == string(text) {
		return nil
	}
	if err := e.step("note " + key); err != nil {
		return err
	}
	return e.Owned.Note(e.Facet, key, text)
}

// Drop forgets an item.
func (e Entries) Drop(key string) error {
	if err := e.step("drop " + key); err != nil {
		return err
	}
	return e.Owned.Drop(e.Facet, key)
}

// Load reads what was stored about an item into before and made, and reports whether the item is owned. Either may
// be nil. What was not stored stays unchanged.
func (e Entries) Load(key string, before, made any) (owned bool) {
	is, owned := e.Owned.Entry(e.Facet, key)
	if len(is.Before) > 0 && before != nil {
		_ = json.Unmarshal(is.Before, before) // Slipway reads what it wrote
	}
	if len(is.Made) > 0 && made != nil {
		_ = json.Unmarshal(is.Made, made)
	}
	return owned
}

func (e Entries) step(what string) error {
	if e.Step == nil {
		return nil
	}
	return e.Step(what)
}
