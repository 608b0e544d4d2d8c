package config

import (
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

func class(err error) string {
	var e *wire.Error
	if errors.As(err, &e) {
		return e.Class
	}
	return ""
}

// refuses holds that an item is refused with a text, and nothing is written.
func refuses(t *testing.T, f *fake, i item.Item, want string) {
	t.Helper()
	before := f.listing(true)
	err := f.apply([]item.Item{i})
	if class(err) != wire.Refused || !strings.Contains(err.Error(), want) {
		t.Errorf("%s: %v, want a refusal with %q", i.Key, err, want)
	}
	if after := f.listing(true); after != before {
		t.Errorf("%s: refused, and written:\n%s", i.Key, difference(after, before))
	}
}

func TestFilesThatAreRefused(t *testing.T) {
	f := newFake(t)
	f.put("/srv/folder/x", "")
	f.link("/etc/kernel", "/proc/sys")
	if err := syscall.Mkfifo(f.host.Path("/srv/pipe"), 0o644); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"/proc/x":                     "belong to the kernel",
		"/sys/module/x":               "belong to the kernel",
		"/dev/null":                   "belong to the kernel",
		"/etc/kernel/x":               "belong to the kernel",
		"/etc/shadow":                 "system.users",
		inside.Folder + "/owned.json": "Slipway keeps",
		"relative":                    "plain absolute path",
		"/a/../b":                     "plain absolute path",
		"/a//b":                       "plain absolute path",
		"/":                           "plain absolute path",
		"":                            "plain absolute path",
		"/a\x00b":                     "plain absolute path",
		"/srv/folder":                 "is a folder",
		"/srv/pipe":                   "is a pipe",
	} {
		refuses(t, f, file(path, "x", "0644", "root"), want)
	}
	refuses(t, f, file("/etc/y", "x", "0644", "nobody-there"), "no account")
	refuses(t, f, file("/etc/y", "x", "rw", "root"), "is not a mode")
}

func TestWhatIsInThePlaceOfAFile(t *testing.T) {
	f := newFake(t)
	f.link("/etc/link", "/etc/motd")
	f.put("/srv/folder/x", "")
	if err := os.Chmod(f.host.Path("/etc/motd"), 0o640|os.ModeSetuid); err != nil {
		t.Fatal(err)
	}
	seen := f.observe("files./etc/link", "files./srv/folder", "files./etc/motd", "files./etc/none", "files./etc/motd/below", "files./proc/x")
	for n, want := range map[string]string{
		"files./etc/link.content": "a link to /etc/motd", "files./srv/folder.content": "a folder",
		"files./etc/motd.content": item.Digest([]byte("before\n")), "files./etc/motd.mode": "4640", "files./etc/motd.owner": "root:root",
		"files./etc/motd.state": "present", "files./etc/none.state": "absent", "files./etc/none.content": "", "files./etc/motd/below.state": "absent",
	} {
		if seen.Have[n] != want {
			t.Errorf("%s is %q, want %q", n, seen.Have[n], want)
		}
	}
	if seen.Cannot["files./proc/x"] == "" || len(seen.Unread) > 0 {
		t.Errorf("cannot %v, unread %v", seen.Cannot, seen.Unread)
	}
}

// A link is replaced itself and comes back; what it leads to is not touched.
func TestALinkIsReplacedAndComesBack(t *testing.T) {
	f := newFake(t)
	f.link("/etc/link", "motd")
	want := f.listing(false)
	items := []item.Item{file("/etc/link", "ours", "0600", "ops")}
	if err := f.apply(items); err != nil {
		t.Fatal(err)
	}
	if f.read("/etc/motd") != "before\n" || f.read("/etc/link") != "ours" {
		t.Errorf("motd %q, link %q", f.read("/etc/motd"), f.read("/etc/link"))
	}
	f.reload()
	if err := f.apply(nil, item.Keys(items)...); err != nil {
		t.Fatal(err)
	}
	if got := f.listing(false); got != want {
		t.Errorf("not as before:\n%s", difference(got, want))
	}
}

// No link leads out of the root: absolute ones are those of the system.
func TestLinksStayBelowTheRoot(t *testing.T) {
	f := newFake(t)
	outside := t.TempDir()
	f.link("/srv/up", "../../../../../../../../../.."+outside)
	f.link("/srv/abs", outside)
	f.link("/srv/loop", "loop")
	if err := f.apply([]item.Item{file("/srv/up/x", "x", "0644", "root"), file("/srv/abs/y", "y", "0644", "root")}); err != nil {
		t.Fatal(err)
	}
	if found, err := os.ReadDir(outside); err != nil || len(found) > 0 {
		t.Errorf("written outside: %v, %v", found, err)
	}
	if f.read(outside+"/x") != "x" || f.read(outside+"/y") != "y" {
		t.Error("not written where the system has these folders")
	}
	if err := f.apply([]item.Item{file("/srv/loop/x", "x", "0644", "root")}); err == nil {
		t.Error("a loop of links is no error")
	}
	if seen := f.observe("files./srv/loop/x"); seen.Unread["files./srv/loop/x"] == "" {
		t.Errorf("a loop of links is seen as %v", seen.Have)
	}
}

func TestPrivateKeysAreNotKept(t *testing.T) {
	f := newFake(t)
	f.put("/etc/key", "-----BEGIN PRIVATE KEY-----\nSECRETSECRET\n")
	i := file("/etc/key", "new", "0600", "root")
	if err := f.apply([]item.Item{i}); err != nil {
		t.Fatal(err)
	}
	e, _ := f.host.Owned.Entry(name, i.Key)
	if !strings.Contains(string(e.Before), `"secret":true`) || strings.Contains(string(e.Before), "content") {
		t.Errorf("kept: %s", e.Before)
	}
	if err := f.apply(nil, i.Key); err != nil {
		t.Fatal(err)
	}
	if len(f.told) != 1 || !strings.Contains(f.told[0], "stores no secrets") {
		t.Errorf("told %q", f.told)
	}
}

// What Slipway did not make is not removed.
func TestForeignFilesAreNotRemoved(t *testing.T) {
	f := newFake(t)
	want := f.listing(true)
	if err := f.apply(nil, "files./etc/motd", "units.a.service", "sysctl.vm.swappiness", "modules.dummy"); err != nil {
		t.Fatal(err)
	}
	if got := f.listing(true); got != want {
		t.Errorf("changed:\n%s", difference(got, want))
	}
}

func TestAFileTooLargeToKeepIsNotReplaced(t *testing.T) {
	f := newFake(t)
	f.put("/etc/large", strings.Repeat("x", 2<<20))
	refuses(t, f, file("/etc/large", "x", "0644", "root"), "Move it away")
}

// Where there is no room to keep any more the file is not replaced, and the other items are made.
func TestAFileThatThereIsNoRoomToKeep(t *testing.T) {
	f := newFake(t)
	var items []item.Item
	for n := range 12 {
		path := fmt.Sprintf("/srv/%02d", n)
		f.put(path, strings.Repeat("x", 700<<10))
		items = append(items, file(path, "new", "0644", "root"))
	}
	items = append(items, file("/srv/another", "new", "0644", "root"))
	err := f.apply(items)
	if class(err) != wire.Refused || !strings.Contains(err.Error(), "files./srv/06: what is there cannot be kept: it has 9") || !strings.Contains(err.Error(), "of the 6291456 bytes that Slipway keeps of one machine are taken") {
		t.Errorf("it ended with %v", err)
	}
	if f.read("/srv/05") != "new" || f.read("/srv/another") != "new" || len(f.read("/srv/06")) != 700<<10 || len(f.read("/srv/11")) != 700<<10 {
		t.Error("not what there is room for was replaced")
	}
	must(t, f.apply(nil, item.Keys(items)...))
	if len(f.read("/srv/00")) != 700<<10 {
		t.Error("what was kept did not come back")
	}
}

// The lines of a file of tmpfiles.d are carried out when it changes, and not only at the next boot,
// also where the change was cut.
func TestLinesOfTmpfilesAreCarriedOut(t *testing.T) {
	const conf = "/etc/tmpfiles.d/app.conf"
	with := []item.Item{file(conf, "d /run/app 0755 root root", "0644", "root"), file("/etc/tmpfiles.d/README", "bad", "0644", "root")}
	cuts := 0
	for limit := 1; ; limit++ {
		f := newFake(t)
		f.limit = limit
		err := f.apply(with)
		f.limit = 0
		f.reload()
		if err == nil {
			if len(f.created) != 1 {
				t.Errorf("uncut, the lines were carried out %d times", len(f.created))
			}
			f.created = nil
			if err := errors.Join(f.apply(with), f.apply(nil, with[0].Key)); err != nil || len(f.created) > 0 {
				t.Errorf("with nothing to do, and removed, they were carried out: %q, %v", f.created, err)
			}
			break
		}
		cuts++
		if isDone := len(f.met(with)) == 0; isDone && len(f.created) == 0 {
			t.Errorf("cut after write %d: it is done, and its lines are not carried out", limit)
		}
		if err := f.apply(with); err != nil {
			t.Fatal(err)
		}
		if wrong := f.met(with); len(wrong) > 0 || len(f.created) == 0 {
			t.Errorf("cut after write %d, and again: %q, carried out %d times", limit, wrong, len(f.created))
		}
	}
	if cuts < 3 {
		t.Errorf("cut %d times", cuts)
	}
	f := newFake(t)
	bad := []item.Item{file(conf, "bad", "0644", "root")}
	if err := f.apply(bad); err == nil || !strings.Contains(err.Error(), "did not carry out "+conf+": "+conf+":1: Unknown command type") {
		t.Errorf("lines that are wrong: %v", err)
	}
	if wrong := f.met(bad); len(wrong) != 1 || !strings.Contains(wrong[0], "systemd-tmpfiles has not read it") {
		t.Errorf("lines that are wrong are told as %q", wrong)
	}
}

// A unit goes by the files that it reads: where one of them was changed, it is restarted once, also
// where the change was cut. One that does not run is not started.
func TestAChangedFileRestartsWhatReadsIt(t *testing.T) {
	const conf = "/etc/a.conf"
	reader := item.Item{Key: "units.a.service", Fields: map[string]string{}}
	reader.Body, _ = json.Marshal(item.Unit{RestartOn: []string{conf, "/etc/other.conf"}})
	one, two := []item.Item{file(conf, "one", "0644", "root"), reader}, []item.Item{file(conf, "two", "0644", "root"), reader}
	begin := func() *fake {
		f := newFake(t)
		f.reads["a.service"] = conf
		if err := f.apply(one); err != nil {
			t.Fatal(err)
		}
		return f
	}
	for name, c := range map[string]struct {
		change func(f *fake) error
		items  []item.Item
		want   string
	}{
		"changed": {func(f *fake) error { return f.apply(two) }, two, "two"},
		"removed": {func(f *fake) error { return f.apply(one[1:], one[0].Key) }, nil, ""},
	} {
		for limit := 1; ; limit++ {
			f := begin()
			if f.goesBy["a.service"] != "one" {
				t.Fatalf("the unit goes by %q", f.goesBy["a.service"])
			}
			f.writes, f.limit, f.calls = 0, limit, nil
			err := c.change(f)
			f.limit = 0
			f.reload()
			_, ours := f.host.Owned.Entry("config", one[0].Key)
			isDone := len(f.met(c.items)) == 0 && (name == "changed" || !ours)
			if isDone && f.goesBy["a.service"] != c.want {
				t.Errorf("%s, cut after write %d: it is done, and the unit goes by %q", name, limit, f.goesBy["a.service"])
			}
			if again := c.change(f); again != nil || f.goesBy["a.service"] != c.want {
				t.Errorf("%s, cut after write %d, and again: the unit goes by %q (%v)", name, limit, f.goesBy["a.service"], again)
			}
			f.calls = nil
			if again := c.change(f); again != nil || strings.Contains(strings.Join(f.calls, "\n"), " restart ") {
				t.Errorf("%s: it was restarted once more, %v: %q", name, again, f.calls)
			}
			if err == nil {
				break
			}
		}
	}

	f := begin()
	delete(f.active, "a.service")
	if err := f.apply(two); err != nil || f.active["a.service"] != "" {
		t.Errorf("a unit that was stopped is %q: %v", f.active["a.service"], err)
	}
}

// A file that leaves the design is a package's where one was installed meanwhile: its file
// stays, or takes the place of ours.
func TestAFileIsLeftToItsPackage(t *testing.T) {
	const path, packaged = "/etc/p.conf", "as packaged\n"
	ours, absent := file(path, "ours\n", "0600", "root"), item.New("files."+path, map[string]string{"state": item.Absent}, item.File{})
	for name, c := range map[string]struct {
		items []item.Item
		there map[string]string
		want  string
	}{
		"it was to be absent":           {[]item.Item{ours, absent}, map[string]string{path: packaged}, packaged},
		"ours was there":                {[]item.Item{ours}, map[string]string{path + besideIt: packaged}, packaged},
		"somebody changed what is left": {[]item.Item{ours}, map[string]string{path + besideIt: "other\n"}, ""},
		"nothing was installed":         {[]item.Item{ours}, nil, ""},
	} {
		f := newFake(t)
		for _, i := range c.items {
			if err := f.apply([]item.Item{i}); err != nil {
				t.Fatal(err)
			}
		}
		sum := md5.Sum([]byte(packaged))
		f.put(dpkgStatus, fmt.Sprintf("Package: p\nStatus: install ok installed\nConffiles:\n %s %x\n\n", path, sum))
		for at, text := range c.there {
			f.put(at, text)
		}
		for range 2 {
			if err := f.apply(nil, ours.Key); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(f.host.Path(path))
		if err != nil && c.want != "" || string(got) != c.want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if _, err := os.Stat(f.host.Path(path + besideIt)); c.want == packaged && err == nil {
			t.Errorf("%s: what dpkg put beside it is still there", name)
		}
	}
}

// A part that leaves the design comes back once. What people do with it afterwards is
// theirs, also when another item is changed.
func TestAPartComesBackOnce(t *testing.T) {
	f := newFake(t)
	apply := func(items ...item.Item) {
		t.Helper()
		if err := f.apply(items); err != nil {
			t.Fatal(err)
		}
	}
	apply(unit("n.service", contentUnit("basic.target"), "enabled", "running"))
	apply(unit("n.service", contentUnit("basic.target"), "enabled", ""))
	if f.active["n.service"] == "active" {
		t.Error("its state did not come back")
	}
	f.active["n.service"] = "active" // by a person
	f.calls = nil
	apply(unit("n.service", contentUnit("basic.target"), "enabled", ""), file("/etc/motd", "x", "0644", "root"))
	if f.active["n.service"] != "active" || strings.Contains(strings.Join(f.calls, "\n"), " stop ") {
		t.Errorf("it came back a second time: %v", f.calls)
	}
	apply(unit("b.service", contentUnit("basic.target"), "enabled", ""))
	apply(unit("b.service", "", "enabled", ""))
	own := contentUnit("multi-user.target") + "# a person's\n"
	f.put("/etc/systemd/system/b.service", own)
	apply(unit("b.service", "", "enabled", ""), file("/etc/motd", "y", "0644", "root"))
	if got := f.read("/etc/systemd/system/b.service"); got != own {
		t.Errorf("the person's file is %q", got)
	}
}

// A disk that is full leaves each item as it was.
func TestAFullDisk(t *testing.T) {
	f := newFake(t)
	f.put("/srv/old", "old")
	if err := syscall.Mount("tmpfs", f.host.Path("/srv"), "tmpfs", 0, "size=64k"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip("only root mounts file systems: ", err)
	}
	defer func() {
		if err := syscall.Unmount(f.host.Path("/srv"), 0); err != nil {
			t.Error(err)
		}
	}()
	f.put("/srv/old", "old")
	err := f.apply([]item.Item{file("/srv/old", strings.Repeat("x", 1<<20), "0644", "root"), file("/etc/other", "x", "0644", "root")})
	if class(err) != wire.Failed || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("%v", err)
	}
	names, _ := os.ReadDir(f.host.Path("/srv"))
	if len(names) != 1 || f.read("/srv/old") != "old" || f.read("/etc/other") != "x" {
		t.Errorf("%v, %q", names, f.read("/srv/old"))
	}
}

func TestAWriteThatFailsLeavesNothingBehind(t *testing.T) {
	f := newFake(t)
	f.put("/srv/x", "")
	want := f.listing(false)
	err := f.apply([]item.Item{file("/srv/x/below", "x", "0644", "root")})
	if err == nil {
		t.Fatal("a file below a file was made")
	}
	if got := f.listing(false); got != want {
		t.Errorf("left behind:\n%s", difference(got, want))
	}
}

// Bodies that are none are errors of their items alone.
func TestHostileBodies(t *testing.T) {
	f := newFake(t)
	bad := file("/etc/bad", "x", "0644", "root")
	bad.Body = json.RawMessage(`{"content":7}`)
	unitBad := unit("bad.service", "x", "", "")
	unitBad.Body = json.RawMessage(`[]`)
	err := f.apply([]item.Item{bad, unitBad, file("/etc/good", "x", "0644", "root")})
	if class(err) != wire.Failed || f.read("/etc/good") != "x" || f.tree("/etc/bad") {
		t.Errorf("%v", err)
	}
}

// The content of a file is told where it differs and everybody may read it, and of
// what is not told it is said why.
func TestShowsFilesThatDiffer(t *testing.T) {
	f := newFake(t)
	large := strings.Repeat("x\n", item.MaxShown)
	for path, content := range map[string]string{
		"/etc/same": "same\n", "/etc/other": "other\n", "/etc/secret": "s3cret\n", "/root/own": "s3cret\n", "/etc/large": large,
		"/etc/binary": "a\x00b", "/etc/key": "-----BEGIN PRIVATE KEY-----\nMIIB\n",
	} {
		f.put(path, content)
	}
	if err := errors.Join(os.Chmod(f.host.Path("/etc/secret"), 0o640), os.Chmod(f.host.Path("/root"), 0o700)); err != nil {
		t.Fatal(err)
	}
	f.link("/etc/link", "/etc/other")
	f.host.Show = map[string]string{"files./etc/same": item.Digest([]byte("same\n"))}
	var keys []string
	for _, path := range []string{"/etc/other", "/etc/secret", "/root/own", "/etc/large", "/etc/binary", "/etc/key", "/etc/link", "/etc/none", "/etc/same"} {
		keys = append(keys, "files."+path)
		if path != "/etc/same" {
			f.host.Show["files."+path] = item.Digest([]byte("designed\n"))
		}
	}
	got := f.observe(append(keys, "files./etc/motd")...).Contents
	want := map[string]item.Content{
		"files./etc/other":  {Text: "other\n", Bytes: 6},
		"files./etc/secret": {Bytes: 7, Withheld: item.NotPublic},
		"files./root/own":   {Withheld: item.NotPublic},
		"files./etc/large":  {Bytes: int64(len(large)), Withheld: item.TooLarge(int64(len(large)))},
		"files./etc/binary": {Bytes: 3, Withheld: "it is not text"},
		"files./etc/key":    {Bytes: 33, Withheld: "it holds a private key"},
	}
	if !maps.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

// A file whose content is an artifact is fetched once, verified before it takes the
// place of what is there, and fetched again after somebody changed it.
func TestArtifacts(t *testing.T) {
	f := newFake(t)
	content := strings.Repeat("artifact ", 1000)
	sum := sha256.Sum256([]byte(content))
	digest := hex.EncodeToString(sum[:])
	body := item.File{Artifact: digest, Mode: "0755", Owner: "ops", Group: "root"}
	items := []item.Item{item.New("files./opt/tool", body.Fields(), body)}
	var asked []string
	var comes io.Reader
	size := int64(len(content))
	f.host.Fetch = func(sha256, file string, room int64) (io.ReadCloser, int64, error) {
		if asked = append(asked, sha256+" "+file); room <= 0 {
			t.Errorf("there is room for %d bytes", room)
		}
		return io.NopCloser(comes), size, nil
	}
	comes = strings.NewReader(content)
	for range 2 {
		if err := f.apply(items); err != nil {
			t.Fatal(err)
		}
		f.reload()
	}
	if want := []string{digest + " /opt/tool"}; !slices.Equal(asked, want) || f.read("/opt/tool") != content {
		t.Errorf("asked %v", asked)
	}

	f.put("/opt/tool", "changed")
	if have := f.observe("files./opt/tool").Have["files./opt/tool.content"]; have != item.Digest([]byte("changed")) {
		t.Errorf("after a change it is %s", have)
	}
	for says, c := range map[string]struct {
		comes io.Reader
		class string
	}{
		"has the digest":     {strings.NewReader(strings.Repeat("Artifact ", 1000)), wire.Failed},
		"of the 9000 bytes":  {strings.NewReader("arti"), wire.Failed},
		"is full: it has no": {io.MultiReader(strings.NewReader("arti"), iotest.ErrReader(syscall.ENOSPC)), wire.Refused},
	} {
		comes = c.comes
		if err := f.apply(items); class(err) != c.class || !strings.Contains(fmt.Sprint(err), says) || f.read("/opt/tool") != "changed" {
			t.Errorf("%s: %v, it has %q", says, err, f.read("/opt/tool"))
		}
		if left, _ := filepath.Glob(f.host.Path("/opt/.slipway-*")); len(left) > 0 {
			t.Errorf("%s: %v is left", says, left)
		}
	}
	comes = strings.NewReader(content)
	if err := f.apply(items); err != nil || f.read("/opt/tool") != content {
		t.Errorf("at last: %v", err)
	}
	before := f.writes
	if err := f.apply(items); err != nil || f.writes != before {
		t.Errorf("again: %v, %d writes", err, f.writes-before)
	}
}

// All files together have a bound.
func TestShowsAFewFiles(t *testing.T) {
	f := newFake(t)
	f.host.Show = map[string]string{}
	var keys []string
	for i := range 20 {
		key := fmt.Sprintf("files./etc/f%02d", i)
		f.put(item.ID(key), strings.Repeat("y", item.MaxShown))
		keys = append(keys, key)
		f.host.Show[key] = "other"
	}
	all := 0
	for _, c := range f.observe(keys...).Contents {
		if all += len(c.Text); c.Text == "" && !strings.Contains(c.Withheld, "more than the 262144 bytes") {
			t.Errorf("got %+v", c)
		}
	}
	if all != item.MaxShownAll {
		t.Errorf("%d bytes are told", all)
	}
}
