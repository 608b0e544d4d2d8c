package item

import (
	"encoding/json"
	"strconv"
	"strings"
)

// New returns an item with the requested fields and the body that is needed to
// apply it; a nil body means none.
func New(key string, fields map[string]string, body any) Item {
	i := Item{Key: key, Fields: fields}
	if body != nil {
		i.Body, _ = json.Marshal(body) // bodies contain only strings, numbers and lists of them
	}
	return i
}

// Fields returns the required state of an account, without its password: a design
// adds that as ValueOf, and a request adds the digest of the hash.
func (u User) Fields() map[string]string {
	fields := map[string]string{"state": Present}
	if u.UID != nil {
		fields["uid"] = strconv.FormatInt(*u.UID, 10)
	}
	// Having no keys, no groups and no sudo is a request too: what leaves the
	// design is removed.
	fields["groups"] = List(u.Groups)
	fields["keys"] = Keyring(u.Keys)
	fields["sudo"] = strconv.FormatBool(u.Sudo)
	set(fields, "shell", u.Shell)
	return fields
}

// Keyring is the canonical text of SSH public keys: a digest of each key
// without its comment.
func Keyring(keys []string) string {
	var all []string
	for _, key := range keys {
		if parts := strings.Fields(key); len(parts) > 1 {
			all = append(all, Digest([]byte(parts[0]+" "+parts[1])))
		}
	}
	return List(all)
}

// Fields returns the required state of the clock.
func (t Time) Fields() map[string]string {
	fields := map[string]string{}
	set(fields, "zone", t.Zone)
	set(fields, "servers", List(t.Servers))
	return fields
}

// Fields returns the required state of log forwarding.
func (l Logs) Fields() map[string]string {
	fields := map[string]string{}
	set(fields, "forward", List(l.Forward))
	return fields
}

// Fields returns the required state of Slipway's part of hosts(5): a digest of all of it.
func (h Hosts) Fields() map[string]string {
	text, _ := json.Marshal(h) // maps are written in order
	return map[string]string{"": Digest(text)}
}

// Fields returns the required state of a repository.
func (r Repository) Fields() map[string]string { return map[string]string{"": r.Text()} }

// Fields returns the required state of an environment.
func (l Language) Fields() map[string]string { return map[string]string{"": l.Text()} }

// Fields returns the required state of upgrades.
func (p Patch) Fields() map[string]string {
	fields := map[string]string{"level": p.Level}
	set(fields, "snapshot", p.Snapshot)
	return fields
}

// Fields returns the required state of a file.
func (f File) Fields() map[string]string {
	content := Digest(f.Content)
	switch {
	case len(f.Key) > 0:
		content = KeyedDigest(f.Key, f.Content)
	case f.Artifact != "":
		content = DigestOf(f.Artifact)
	}
	return map[string]string{"state": Present, "content": content, "mode": f.Mode, "owner": f.Owner + ":" + f.Group}
}

func set(fields map[string]string, name, value string) {
	if value != "" {
		fields[name] = value
	}
}
