package base

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// clock is a time service.
type clock interface {
	name() string
	// servers are those that it is set to use.
	servers(j *job) ([]string, error)
	// apply sets them in the place of the system's own, and gives the system its
	// own back where there are none. It calls begin before its first write.
	apply(j *job, want []string, made *madeTime, begin func() error) (changed bool, err error)
	// unit is the one to restart.
	unit(j *job) string
}

var clocks = []clock{chrony{}, timesyncd{}}

// clock is the time service of the system: chrony where it is installed, and else
// systemd-timesyncd; nil where there is neither.
func (j *job) clock() clock {
	switch {
	case j.exists("/usr/sbin/chronyd"):
		return chrony{}
	case j.first("/usr/lib/systemd/systemd-timesyncd", "/lib/systemd/systemd-timesyncd") != "":
		return timesyncd{}
	}
	return nil
}

// chrony is set in its main file, in which distributions agree, unlike in the
// folders that it reads besides. The lines that name sources are disabled there
// and in the folder of further settings, and ours are added to the main file.
type chrony struct{}

func (chrony) name() string { return "chrony" }

// off begins a line that we disabled. "#" alone would not tell it from others.
const off = "#slipway off: "

// sourceWords begin the lines of chrony.conf(5) that name sources of time.
var sourceWords = []string{"server", "pool", "peer", "sourcedir"}

func sourceLine(line string) (word, rest string) {
	parts := strings.Fields(line)
	if len(parts) < 2 || !slices.Contains(sourceWords, strings.ToLower(parts[0])) {
		return "", ""
	}
	return strings.ToLower(parts[0]), parts[1]
}

// disable disables the lines that name sources.
func disable(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		if word, _ := sourceLine(line); word != "" {
			out.WriteString(off)
		}
		out.WriteString(line)
	}
	return out.String()
}

// enable takes back what disable did.
func enable(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		out.WriteString(strings.TrimPrefix(line, off))
	}
	return out.String()
}

func (chrony) main(j *job) string { return j.first("/etc/chrony/chrony.conf", "/etc/chrony.conf") }

// files are the main file and those in the folders of settings that it reads.
func (c chrony) files(j *job) (files []string, err error) {
	top := c.main(j)
	if top == "" {
		return nil, errors.New("chrony is installed and has no settings file: reinstall it")
	}
	text, _, err := j.read(top)
	if err != nil {
		return nil, err
	}
	files = []string{top}
	for line := range strings.Lines(string(text)) {
		parts := strings.Fields(line)
		if len(parts) < 2 || !strings.EqualFold(parts[0], "confdir") {
			continue
		}
		for _, folder := range parts[1:] {
			further, err := j.list(folder, ".conf")
			if err != nil {
				return nil, err
			}
			files = append(files, further...)
		}
	}
	return files, nil
}

// list are the files of a folder with an ending, in order; none where there is no
// folder.
func (j *job) list(folder, ending string) (files []string, err error) {
	at, err := j.follow(folder)
	if err != nil {
		return nil, err
	}
	all, err := os.ReadDir(at)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range all {
		if strings.HasSuffix(e.Name(), ending) {
			files = append(files, filepath.Join(folder, e.Name()))
		}
	}
	return files, err
}

func (c chrony) servers(j *job) (all []string, err error) {
	files, err := c.files(j)
	for i := 0; err == nil && i < len(files); i++ {
		var text []byte
		if text, _, err = j.read(files[i]); err != nil {
			break
		}
		for line := range strings.Lines(string(text)) {
			switch word, rest := sourceLine(line); word {
			case "":
			case "sourcedir":
				further, err := c.fromFolder(j, rest)
				if err != nil {
					return nil, err
				}
				all = append(all, further...)
			default:
				all = append(all, printable(rest))
			}
		}
	}
	return all, err
}

func (chrony) fromFolder(j *job, folder string) (all []string, err error) {
	if strings.HasPrefix(folder, "/run/") { // what DHCP says is no setting
		return nil, nil
	}
	files, err := j.list(folder, ".sources")
	for i := 0; err == nil && i < len(files); i++ {
		var text []byte
		text, _, err = j.read(files[i])
		for line := range strings.Lines(string(text)) {
			if word, rest := sourceLine(line); word != "" {
				all = append(all, printable(rest))
			}
		}
	}
	return all, err
}

func (c chrony) apply(j *job, want []string, _ *madeTime, begin func() error) (changed bool, err error) {
	if c.main(j) == "" && len(want) == 0 {
		return false, nil
	}
	files, err := c.files(j)
	if err != nil {
		return false, failed("%v", err)
	}
	for i, file := range files {
		text, _, err := j.read(file)
		if err != nil {
			return changed, failed("%v", err)
		}
		b, err := split(string(text))
		if err != nil {
			return changed, refused("%s", brokenBlock(file, err))
		}
		fresh := chronyText(b, want, i == 0)
		if fresh == string(text) {
			continue
		}
		if !changed {
			if err := begin(); err != nil {
				return false, err
			}
		}
		changed = true
		if err := j.write(file, []byte(fresh)); err != nil {
			return true, err
		}
	}
	return changed, nil
}

// chronyText is a file of settings with the servers that are wanted; only the
// main file names them.
func chronyText(b block, want []string, main bool) string {
	if len(want) == 0 {
		b.before, b.after = enable(b.before), enable(b.after)
		return b.join("")
	}
	b.before, b.after = disable(b.before), disable(b.after)
	ours := ""
	if main {
		for _, s := range want {
			ours += "server " + s + " iburst\n"
		}
	}
	return b.join(ours)
}

func (chrony) unit(j *job) string {
	if j.first("/usr/lib/systemd/system/chronyd.service", "/lib/systemd/system/chronyd.service") != "" {
		return "chronyd.service"
	}
	return "chrony.service"
}

// timesyncd is set in a file of its own, which its other files give way to.
type timesyncd struct{}

func (timesyncd) name() string { return "systemd-timesyncd" }

const (
	timesyncdFolder = "/etc/systemd/timesyncd.conf.d"
	timesyncdFile   = timesyncdFolder + "/zz-slipway.conf" // read last
)

func (timesyncd) servers(j *job) (all []string, err error) {
	byName := map[string]string{}
	for _, folder := range []string{"/usr/lib/systemd/timesyncd.conf.d", "/run/systemd/timesyncd.conf.d", timesyncdFolder} {
		files, err := j.list(folder, ".conf")
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			byName[filepath.Base(f)] = f
		}
	}
	names := make([]string, 0, len(byName))
	for n := range byName {
		names = append(names, n)
	}
	slices.Sort(names)
	files := []string{"/etc/systemd/timesyncd.conf"}
	for _, n := range names {
		files = append(files, byName[n])
	}
	for _, f := range files {
		text, _, err := j.read(f)
		if err != nil {
			return nil, err
		}
		all = timesyncdServers(all, string(text))
	}
	return all, nil
}

// timesyncdServers are the servers after a further file: an empty value takes
// away those before it.
func timesyncdServers(all []string, text string) []string {
	for line := range strings.Lines(text) {
		word, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		if !ok || strings.TrimSpace(word) != "NTP" {
			continue
		}
		servers := strings.Fields(printable(strings.TrimSpace(value)))
		if len(servers) == 0 {
			all = nil
		}
		all = append(all, servers...)
	}
	return all
}

func (timesyncd) apply(j *job, want []string, made *madeTime, begin func() error) (changed bool, err error) {
	text, there, err := j.read(timesyncdFile)
	if err != nil {
		return false, failed("%v", err)
	}
	if len(want) == 0 {
		if there {
			if err := begin(); err != nil {
				return false, err
			}
			if err := j.delete(timesyncdFile); err != nil {
				return true, err
			}
		}
		if made.Folder {
			return there, j.deleteEmpty(timesyncdFolder)
		}
		return there, nil
	}
	fresh := "# Slipway's, from the design.\n[Time]\nNTP=\nNTP=" + strings.Join(want, " ") + "\nFallbackNTP=\n"
	if string(text) == fresh {
		return false, nil
	}
	if !j.exists(timesyncdFolder) {
		made.Folder = true
	}
	if err := begin(); err != nil {
		return false, err
	}
	if _, err := j.folder(timesyncdFolder); err != nil {
		return true, err
	}
	return true, j.put(timesyncdFile, []byte(fresh), 0o644)
}

// deleteEmpty removes a folder unless something is in it.
func (j *job) deleteEmpty(path string) error {
	at, err := j.place(path)
	if err != nil {
		return err
	}
	if all, err := os.ReadDir(at); err != nil || len(all) > 0 {
		return nil
	}
	j.step("remove " + path)
	if err := os.Remove(at); err != nil {
		return failed("remove %s: %v", path, err)
	}
	return nil
}

func (timesyncd) unit(*job) string { return "systemd-timesyncd.service" }
