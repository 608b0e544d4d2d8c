package base

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// Accounts of people have numbers in these bounds (login.defs(5), UID_MIN and
// UID_MAX as distributions have them).
const (
	firstPerson = 1000
	lastPerson  = 59_999
)

// designKey is an SSH key as a design may have it: without options.
var designKey = inside.Pattern(`^[a-z0-9@.-]+ [A-Za-z0-9+/=]+( .*)?$`)

// Survey lists the host name, the clock, and the accounts of people and of root with
// the keys that may log in. Passwords never leave the machine, not even as hashes.
func (f *facet) Survey(ctx context.Context, h *inside.Host) (found item.Found, err error) {
	j := &job{facet: f, ctx: ctx, h: h}
	j.once, j.onceSudo = sync.OnceValues(j.accounts), sync.OnceValue(j.cannotSudo)
	all, err := j.once()
	if err != nil {
		return found, err
	}
	var people []login
	keys := []string{item.KindHostname, item.KindTime}
	for _, l := range all.logins {
		if l.uid == 0 && l.name == "root" || l.uid >= firstPerson && l.uid <= lastPerson {
			people = append(people, l)
			keys = append(keys, item.KindUsers+"."+l.name)
		}
	}
	seen, err := f.Observe(ctx, h, keys)
	if err != nil {
		return found, err
	}
	j.surveyHostname(&found, seen)
	j.surveyTime(&found, seen)
	for _, l := range people {
		j.surveyUser(&found, seen, l, all)
	}
	j.surveyHosts(&found)
	j.surveyRules(&found, people)
	return found, nil
}

func (j *job) surveyHostname(found *item.Found, seen inside.Seen) {
	have, unread := seen.Have[item.KindHostname], seen.Unread[item.KindHostname]
	switch {
	case unread != "":
		found.Leave(item.KindHostname, "it could not be read: %s", unread)
	case have != "" && !validHost(have):
		found.Leave(item.KindHostname, "%q is not a host name, or not the one that the system runs under", have)
	case have != "":
		found.Items = append(found.Items, item.New(item.KindHostname, map[string]string{"": have}, nil))
	}
}

func (j *job) surveyTime(found *item.Found, seen inside.Seen) {
	const zone, servers = item.KindTime + ".zone", item.KindTime + ".servers"
	var clock item.Time
	if have := seen.Have[zone]; have != "" {
		if err := j.checkZone(have); err != nil {
			found.Leave(zone, "%v", err)
		} else {
			clock.Zone = have
		}
	}
	if have := seen.Have[servers]; have != "" {
		clock.Servers = strings.Split(have, ", ")
		for _, s := range clock.Servers {
			if !validServer(s) {
				found.Leave(servers, "%q is not the name or the address of a time server", s)
				clock.Servers = nil
				break
			}
		}
	}
	for _, name := range []string{zone, servers} {
		if why := seen.Unread[name]; why != "" {
			found.Leave(name, "it could not be read: %s", why)
		}
	}
	if fields := clock.Fields(); len(fields) > 0 {
		found.Items = append(found.Items, item.New(item.KindTime, fields, clock))
	}
}

func (j *job) surveyUser(found *item.Found, seen inside.Seen, l login, all accounts) {
	key := item.KindUsers + "." + l.name
	if !validName(l.name) {
		found.Leave("users."+printable(l.name), "the design has names of lower-case letters, digits, \"_\" and \"-\"")
		return
	}
	for _, name := range []string{key, key + ".keys", key + ".sudo"} {
		if why := seen.Unread[name]; why != "" {
			found.Leave(name, "it could not be read: %s", why)
			return
		}
	}
	r, err := j.keys(l)
	if err != nil {
		found.Leave(key, "its keys could not be read: %v", err)
		return
	}
	if len(parseKeys(r.second)) > 0 {
		found.Leave(key+".keys", "the keys in its file ~/%s/%s stay beside those of the design: move them to %s, or remove them", sshFolder, secondFile, keysFile)
	}
	keys, wrong := designKeys(r.text)
	switch {
	case wrong != "":
		found.Leave(key, "%s", wrong)
		return
	case len(keys) > 0 && r.unsafe != "":
		found.Leave(key, "%s", r.unsafe)
		return
	case l.uid == 0 && len(keys) == 0:
		return
	case seen.Have[key+".sudo"] != "true" && seen.Have[key+".sudo"] != "false":
		found.Leave(key, "Slipway's rule for sudo in %s was changed by hand", item.SudoFile(l.name))
		return
	}
	uid := int64(l.uid)
	u := item.User{UID: &uid, Groups: all.further(l), Shell: l.shell, Keys: keys, Sudo: seen.Have[key+".sudo"] == "true"}
	if u.Shell != "" && (!filepath.IsAbs(u.Shell) || printable(u.Shell) != u.Shell) {
		u.Shell = ""
	}
	i := item.New(key, u.Fields(), u)
	for field, want := range i.Fields {
		if have := seen.Have[item.Name(key, field)]; have != want {
			found.Leave(key, "its %s is %q, which a design cannot say", field, have)
			return
		}
	}
	if password(all.hashes[l.name]) == "set" {
		found.Leave(key+".password", "a password is secret: it stays as it is")
	}
	found.Items = append(found.Items, i)
}

// designKeys are the keys in a text of authorized_keys, each once, as a design has
// them; wrong says why it cannot have all of them.
func designKeys(text string) (keys []string, wrong string) {
	var known []string
	for line := range strings.Lines(text) {
		k := parseKey(line)
		switch {
		case k == "" || slices.Contains(known, k):
			continue
		case strings.Contains(k, ";"):
			return nil, "a key of its authorized_keys has options, which a design cannot say"
		}
		known = append(known, k)
		line = strings.TrimSpace(line)
		if whole := strings.Join(strings.Fields(line), " "); printable(whole) == whole {
			line = whole
		} else {
			line = k // the comment is not printable
		}
		if !designKey().MatchString(line) {
			return nil, "a key of its authorized_keys has a form that a design cannot have"
		}
		keys = append(keys, line)
	}
	return keys, ""
}

// surveyHosts tells of names that others have written: Slipway has a part of the file
// of its own.
func (j *job) surveyHosts(found *item.Found) {
	text, _, err := j.read(hostsFile)
	if err != nil {
		return
	}
	b, err := split(string(text))
	if err != nil {
		return
	}
	n := 0
	for address := range parseHosts(b.before + b.after) {
		if !strings.HasPrefix(address, "127.") && address != "::1" && !strings.HasPrefix(address, "ff0") && !strings.HasPrefix(address, "fe00:") {
			n++
		}
	}
	if n > 0 {
		found.Leave(hostsFile, "it names %d addresses in lines that are not Slipway's; to design them, write them to system.hosts and remove them there", n)
	}
}

// surveyRules tells of rules for sudo that are not Slipway's: they stay as they are.
func (j *job) surveyRules(found *item.Found, people []login) {
	files, err := j.list("/etc/sudoers.d", "")
	if err != nil {
		return
	}
	for _, file := range append([]string{"/etc/sudoers"}, files...) {
		text, _, err := j.read(file)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			word, _, _ := strings.Cut(strings.TrimSpace(line), " ")
			named := slices.ContainsFunc(people, func(l login) bool { return l.uid != 0 && l.name == word })
			if named && file != item.SudoFile(word) {
				found.Leave("users."+word+".sudo", "its rule in %s stays as it is; `sudo: true` would add Slipway's own rule", printable(file))
			}
		}
	}
}
