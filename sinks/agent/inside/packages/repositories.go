package packages

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// repositoryFiles are the paths of one repository's files. pin is empty if the source itself has the priority.
type repositoryFiles struct {
	debian           bool
	source, key, pin string
}

// repositoryID is a repository's name in file names and dnf's sections.
func repositoryID(name string) string { return "slipway-" + name }

func (apt) repositoryFiles(_ *inside.Host, name string) repositoryFiles {
	id := repositoryID(name)
	return repositoryFiles{true, "/etc/apt/sources.list.d/" + id + ".sources", "/etc/apt/keyrings/" + id + ".asc", "/etc/apt/preferences.d/" + id + ".pref"}
}

func (dnf) repositoryFiles(_ *inside.Host, name string) repositoryFiles {
	id := repositoryID(name)
	return repositoryFiles{false, "/etc/yum.repos.d/" + id + ".repo", "/etc/pki/rpm-gpg/RPM-GPG-KEY-" + id, ""}
}

func (f repositoryFiles) paths() []string {
	if f.pin == "" {
		return []string{f.key, f.source}
	}
	return []string{f.key, f.pin, f.source} // the source last: it activates the others
}

// check says why a repository is not valid here.
func (f repositoryFiles) check(r item.Repository) error {
	family := map[bool]string{true: "debian", false: "rhel"}[f.debian]
	if r.Family != "" && r.Family != family {
		return fmt.Errorf("it is for the family %q, and the system is of %q", r.Family, family)
	}
	scheme, rest, ok := strings.Cut(r.URL, "://")
	if !ok && f.debian {
		scheme, rest, ok = strings.Cut(r.URL, ":") // file:/path
	}
	switch {
	case !ok || rest == "" || (scheme != "http" && scheme != "https" && scheme != "file"):
		return fmt.Errorf("its URL %q is none of http, https and file", printable(r.URL))
	case f.debian && r.Suite == "":
		return fmt.Errorf("it has no suite")
	case f.debian && len(r.Components) == 0 && !strings.HasSuffix(r.Suite, "/"):
		return fmt.Errorf("it has no components")
	case f.debian && len(r.Components) > 0 && strings.HasSuffix(r.Suite, "/"): // apt would then read no source at all
		return fmt.Errorf("its suite %q is a folder by the \"/\" at its end, and a folder has no components", printable(r.Suite))
	case slices.Contains(r.Components, ""):
		return fmt.Errorf("one of its components is empty")
	}
	for _, word := range append([]string{r.URL, r.Suite}, r.Components...) {
		if strings.ContainsFunc(word, func(c rune) bool { return c <= ' ' || c == 0x7f }) || strings.HasPrefix(word, "#") || len(word) > 2000 {
			return fmt.Errorf("%q is not a single word", printable(word))
		}
	}
	if len(r.Key) > 1<<18 {
		return fmt.Errorf("its key has more than %d bytes", 1<<18)
	}
	return nil
}

// render returns the files' contents by path; nil for a file that must not exist.
func (f repositoryFiles) render(h *inside.Host, name string, r item.Repository) map[string][]byte {
	files := map[string][]byte{f.key: r.KeyFile()}
	if !f.debian {
		text := fmt.Sprintf("[%s]\nname=%s\nbaseurl=%s\nenabled=1\ngpgcheck=1\n", repositoryID(name), repositoryID(name), r.URL)
		if r.KeyFile() != nil {
			text += "gpgkey=file://" + f.key + "\n"
		}
		if r.Pin != 0 {
			text += fmt.Sprintf("priority=%d\n", r.Pin)
		}
		files[f.source] = []byte(text)
		return files
	}
	text := fmt.Sprintf("Types: deb\nURIs: %s\nSuites: %s\n", r.URL, r.Suite)
	if len(r.Components) > 0 {
		text += "Components: " + strings.Join(r.Components, " ") + "\n"
	}
	if r.KeyFile() != nil {
		text += "Signed-By: " + f.key + "\n"
	}
	files[f.source] = []byte(text)
	files[f.pin] = nil
	if r.Pin != 0 {
		files[f.pin] = fmt.Appendf(nil, "Package: *\nPin: %s\nPin-Priority: %d\n", pinned(h, r), r.Pin)
	}
	return files
}

// pinned is the target of a priority: the release as its list names it, so that other suites of the same server
// keep theirs. Until the list has been fetched, it is the server.
func pinned(h *inside.Host, r item.Repository) string {
	rest := strings.TrimSuffix(r.URL, "/")
	if _, behind, ok := strings.Cut(rest, "://"); ok {
		rest = behind
	} else if _, behind, ok := strings.Cut(rest, ":"); ok {
		rest = behind
	}
	file := strings.ReplaceAll(strings.ReplaceAll(rest, "_", "%5f"), "/", "_")
	release, err := readIfThere(h, aptLists+"/"+file+"_dists_"+strings.ReplaceAll(r.Suite, "/", "_")+"_InRelease")
	if err != nil || release == nil {
		release, _ = readIfThere(h, aptLists+"/"+file+"_dists_"+strings.ReplaceAll(r.Suite, "/", "_")+"_Release")
	}
	fields := paragraph(release)
	var parts []string
	for _, field := range [][2]string{{"Origin", "o"}, {"Label", "l"}, {"Codename", "n"}, {"Suite", "a"}} {
		if v := fields[field[0]]; v != "" && !strings.ContainsAny(v, ",\"") {
			parts = append(parts, field[1]+"="+v)
		}
	}
	if fields["Origin"] != "" && len(parts) > 2 {
		return "release " + strings.Join(parts, ",")
	}
	return "origin " + strconv.Quote(host(rest))
}

// host is the host of a URL without its scheme; empty for files, like apt.
func host(rest string) string {
	authority, _, _ := strings.Cut(rest, "/")
	if _, behind, ok := strings.Cut(authority, "@"); ok {
		authority = behind
	}
	if at, err := netip.ParseAddrPort(authority); err == nil {
		return at.Addr().String()
	}
	name, _, _ := strings.Cut(authority, ":")
	return name
}

// paragraph are the fields of the first paragraph in the format of deb822. It skips continuation lines and an
// OpenPGP header.
func paragraph(text []byte) map[string]string {
	fields := map[string]string{}
	body := string(text)
	if strings.HasPrefix(body, "-----BEGIN PGP SIGNED MESSAGE-----") {
		_, body, _ = strings.Cut(body, "\n\n")
	}
	for line := range strings.Lines(body) {
		line = strings.TrimRight(line, "\r\n")
		if line == "" {
			break
		}
		if key, value, ok := strings.Cut(line, ":"); ok && line[0] != ' ' && line[0] != '\t' && line[0] != '#' {
			fields[key] = strings.TrimSpace(value)
		}
	}
	return fields
}

// parse reads a repository from its files. Without a source it is zero.
func (f repositoryFiles) parse(h *inside.Host) (item.Repository, error) {
	source, err := readIfThere(h, f.source)
	if err != nil || source == nil {
		return item.Repository{}, err
	}
	key, err := readIfThere(h, f.key)
	if err != nil {
		return item.Repository{}, err
	}
	var r item.Repository
	if !f.debian {
		fields := ini(source)
		r = item.Repository{Family: "rhel", URL: fields["baseurl"]}
		r.Pin, _ = strconv.Atoi(fields["priority"])
		if fields["gpgkey"] != "" {
			r.Key = string(key)
		}
		return r, nil
	}
	fields := paragraph(source)
	r = item.Repository{Family: "debian", URL: fields["URIs"], Suite: fields["Suites"], Components: strings.Fields(fields["Components"])}
	if fields["Signed-By"] != "" {
		r.Key = string(key)
	}
	pin, err := readIfThere(h, f.pin)
	if err != nil {
		return item.Repository{}, err
	}
	r.Pin, _ = strconv.Atoi(paragraph(pin)["Pin-Priority"])
	return r, nil
}

func ini(text []byte) map[string]string {
	fields := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			fields[strings.TrimSpace(key)] = strings.TrimSpace(value)
		}
	}
	return fields
}

// seen is the canonical text of the existing repository; "" for none. It shows if people changed our files.
func (f repositoryFiles) seen(h *inside.Host, name string) (string, error) {
	r, err := f.parse(h)
	if err != nil || r.URL == "" && !exists(h, f.source) {
		return "", err
	}
	text := r.Text()
	for file, want := range f.render(h, name, r) {
		have, err := readIfThere(h, file)
		if err != nil {
			return "", err
		}
		if file == f.pin && want != nil && have != nil {
			continue // its target depends on the lists at the time of writing
		}
		if !bytes.Equal(have, want) {
			return text + " (" + path.Base(file) + " was changed)", nil
		}
	}
	return text, nil
}

// before records the current files of a repository, for a later restore. Names with a trailing slash are folders
// that Slipway creates for repositories. Debian has /etc/apt/keyrings since version 12.
func (f repositoryFiles) before(h *inside.Host) (json.RawMessage, error) {
	made, err := madeFolders(h)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for _, file := range f.paths() {
		if folder := path.Dir(file) + "/"; made[folder] || !exists(h, folder) {
			files[folder] = nil
		}
		text, err := readIfThere(h, file)
		if err != nil {
			return nil, err
		}
		if text != nil {
			files[file] = text
		}
	}
	if len(files) == 0 {
		return nil, nil
	}
	return json.Marshal(files)
}

// madeFolders are the folders that Slipway made for its repositories here. Each repository lists them all, so that
// they are removed with the last one.
func madeFolders(h *inside.Host) (map[string]bool, error) {
	made := map[string]bool{}
	for _, key := range h.Owned.Keys(facetName) {
		if item.Kind(key) != item.KindRepositories {
			continue
		}
		e, _ := h.Owned.Entry(facetName, key)
		before, err := filesBefore(key, e)
		if err != nil {
			return nil, err
		}
		for name := range before {
			if strings.HasSuffix(name, "/") {
				made[name] = true
			}
		}
	}
	return made, nil
}

// filesBefore reads the record of before.
func filesBefore(key string, e inside.Entry) (map[string][]byte, error) {
	files := map[string][]byte{}
	if len(e.Before) > 0 {
		if err := json.Unmarshal(e.Before, &files); err != nil {
			return nil, failed("%s: Slipway's record of what was there before cannot be read: %v", key, err)
		}
	}
	return files, nil
}

// put writes files, and removes those without content.
func (f repositoryFiles) put(h *inside.Host, files map[string][]byte) error {
	for _, file := range f.paths() {
		var err error
		if text := files[file]; text != nil {
			err = write(h, file, text)
		} else {
			err = remove(h, file)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
