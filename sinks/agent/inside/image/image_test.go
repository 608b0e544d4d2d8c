package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/slipway-gitops/slipway/sinks/agent/wire"
	"github.com/slipway-gitops/slipway/tests/nspawn"
)

const mib = 1 << 20

// served is a source that breaks off.
type served struct {
	file []byte
	// cut breaks each connection off after so many bytes; 0 never.
	cut int
	// damage is called with what each connection gives; it may be nil.
	damage func(opened int, from int64, b []byte) []byte
	opened int
	gone   bool
}

func (s *served) Open(_ context.Context, from int64) (io.ReadCloser, error) {
	s.opened++
	if s.gone {
		return nil, fmt.Errorf("%w: 404", ErrGone)
	}
	b := s.file[min(from, int64(len(s.file))):]
	if s.damage != nil {
		b = s.damage(s.opened, from, bytes.Clone(b))
	}
	if s.cut > 0 && len(b) > s.cut {
		return io.NopCloser(io.MultiReader(bytes.NewReader(b[:s.cut]), broken{})), nil
	}
	return io.NopCloser(bytes.NewReader(b)), nil
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("connection reset by peer") }

// of names a file as it was approved.
func of(kind Kind, file []byte) Image {
	sum := sha256.Sum256(file)
	return Image{Kind: kind, SHA256: hex.EncodeToString(sum[:]), Bytes: int64(len(file))}
}

// plenty are options that nothing is too large for.
var plenty = Options{Memory: 1 << 30, Room: 1 << 40, wait: time.Microsecond}

// put checks an image and unpacks it.
func put(t *testing.T, s *served, o Options) (root string, _ Result, _ error) {
	t.Helper()
	root = t.TempDir()
	c, err := Check(t.Context(), s, of(Root, s.file), o)
	if err != nil {
		return root, Result{}, err
	}
	defer c.Close()
	r, err := c.Unpack(t.Context(), root)
	return root, r, err
}

// sh runs a script of Debian's programs with arguments.
func sh(t *testing.T, script string, args ...string) string {
	t.Helper()
	out, err := exec.Command("bash", append([]string{"-ec", "set -o pipefail\n" + script, "sh"}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, script, out)
	}
	return string(out)
}

// everything makes a tree with all that a root file system may have.
const everything = `cd "$1"
umask 022
mkdir -p usr/bin usr/lib etc/private var/tmp dev run proc
chmod 0700 etc/private; chmod 1777 var/tmp; chmod 0555 proc
ln -s usr/bin bin; ln -s /nowhere/at/all etc/absolute; ln -s ../../../../out usr/lib/up
printf hello >usr/bin/hello; chmod 4755 usr/bin/hello; chown 0:0 usr/bin/hello
cp usr/bin/hello usr/bin/capable; chmod 0755 usr/bin/capable; setcap cap_net_raw,cap_net_admin+ep usr/bin/capable
ln usr/bin/hello usr/bin/again; ln usr/bin/hello etc/private/third
head -c 3000000 /dev/urandom >usr/lib/noise; chown 12345:54321 usr/lib/noise; chmod 2640 usr/lib/noise
: >etc/empty; chown 4294967294:4294967294 etc/empty
mkfifo -m 0622 dev/pipe; mknod -m 0666 dev/null c 1 3; mknod -m 0660 dev/sda b 8 0; mknod dev/large c 260 300000
dd if=/dev/urandom of=var/sparse bs=4096 count=3 seek=100 conv=notrunc status=none; truncate -s 40M var/sparse
truncate -s 5M var/hole
long=$(printf 'x%.0s' $(seq 250)); mkdir -p "var/$long/$long"; printf deep >"var/$long/$long/$long"
printf odd >"$(printf 'var/\303\244 \nb\377')"
mkdir var/lib; touch -d '1969-12-31 23:59:58.5 UTC' etc/empty; touch -d '2031-01-02 03:04:05.123456789 UTC' usr/bin/hello
touch -h -d '2001-02-03 04:05:06 UTC' bin; touch -d '2002-02-03 04:05:06 UTC' var/lib usr etc/private .
`

// same is a digest of all of a tree, as GNU tar has it.
const same = `tar --format=posix --pax-option=exthdr.name=%d/%f,delete=atime,delete=ctime --sort=name --numeric-owner --xattrs --xattrs-include='*' -C "$1" -cf - . | sha256sum`

// What GNU tar has put into an archive comes out of it as GNU tar finds it again, in each of
// its forms and packed by each program.
func TestUnpackAsGNUTar(t *testing.T) {
	nspawn.Require(t, "zstd", "gzip", "xz", "setcap")
	tree := t.TempDir()
	sh(t, everything, tree)
	want := sh(t, same, tree)
	for _, c := range []struct{ name, options, pack string }{
		{"posix", "--format=posix --xattrs --xattrs-include='*' --sparse", "cat"},
		{"posix, zstd", "--format=posix --xattrs --xattrs-include='*'", "zstd -q"},
		{"posix, zstd with a long window", "--format=posix --xattrs --xattrs-include='*'", "zstd -q --long=27 -T2"},
		{"posix, gzip", "--format=posix --xattrs --xattrs-include='*' --sparse --sparse-version=0.1", "gzip -1"},
		{"posix, xz", "--format=posix --xattrs --xattrs-include='*' --sparse", "xz -0 -T2 --block-size=1MiB"},
		{"posix, without dots", "--format=posix --xattrs --xattrs-include='*' --transform=s,^\\./,,", "cat"},
	} {
		path := filepath.Join(t.TempDir(), "image")
		sh(t, `tar `+c.options+` --numeric-owner -C "$1" -cf - . | `+c.pack+` >"$2"`, tree, path)
		file, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range []Options{plenty, {Room: 1 << 40, wait: time.Microsecond}} {
			s := &served{file: file, cut: 1234567}
			root, r, err := put(t, s, o)
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			if got := sh(t, same, root); got != want {
				t.Errorf("%s: the tree differs:\n%s", c.name, sh(t, `for d in "$1" "$2"; do (cd "$d"; find . -printf '%p %y %m %U:%G %s %T+ %n %l\n' | sort) >"$d.list"; done; diff "$1.list" "$2.list" || true`, tree, root))
			}
			if r.SHA256 != of(Root, file).SHA256 || r.Entries < 25 || r.Unpacked < 40*mib {
				t.Errorf("%s: %+v", c.name, r)
			}
			if used := strings.Fields(sh(t, `du -sk "$1/var/sparse"`, root))[0]; strings.Contains(c.options, "sparse") && len(used) > 3 {
				t.Errorf("%s: the sparse file takes %s kB", c.name, used)
			}
		}
	}
	// The older form knows neither fractions of seconds nor attributes.
	sh(t, `cd "$1"; rm usr/bin/capable; find . -exec touch -h -d @1700000000 {} +`, tree)
	path := filepath.Join(t.TempDir(), "image")
	sh(t, `tar --format=gnu --sparse -C "$1" -cf "$2" .`, tree, path)
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	root, _, err := put(t, &served{file: file}, plenty)
	if err != nil {
		t.Fatal(err)
	}
	if got := sh(t, same, root); got != sh(t, same, tree) {
		t.Errorf("gnu: the tree differs")
	}
}

// one is an archive of some entries.
func one(t testing.TB, entries ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range entries {
		content := h.Uname // the test's own: what is in it
		h.Uname = ""
		if h.Typeflag == tar.TypeReg {
			h.Size = int64(len(content))
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := io.WriteString(w, content); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func file(name, content string) tar.Header {
	return tar.Header{Typeflag: tar.TypeReg, Name: name, Uname: content, Mode: 0o644}
}

func link(kind byte, name, to string) tar.Header {
	return tar.Header{Typeflag: kind, Name: name, Linkname: to, Mode: 0o777}
}

func folderOf(name string) tar.Header {
	return tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: 0o755}
}

// Nothing of an archive gets out of the folder, whatever it says; and what is wrong with it is
// told before anything is written where that can be.
func TestNothingGetsOut(t *testing.T) {
	outside := t.TempDir()
	victim := filepath.Join(outside, "victim")
	if err := os.WriteFile(victim, []byte("untouched"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		entries []tar.Header
		says    string
		early   bool // found by Check
	}{
		"a name with ..":             {[]tar.Header{file("a/../../victim", "x")}, `leads out of a folder`, true},
		"an absolute name":           {[]tar.Header{file(victim, "x")}, `is not relative`, true},
		"a file behind a link":       {[]tar.Header{link(tar.TypeSymlink, "a", outside), file("a/victim", "x")}, `the folder /a cannot be used`, false},
		"a file behind a link up":    {[]tar.Header{link(tar.TypeSymlink, "a", "../"+filepath.Base(outside)), file("a/victim", "x")}, `the folder /a cannot be used`, false},
		"a folder behind a link":     {[]tar.Header{link(tar.TypeSymlink, "a", outside), folderOf("a/b/")}, `the folder /a cannot be used`, false},
		"a hard link out":            {[]tar.Header{link(tar.TypeLink, "a", "../"+filepath.Base(outside)+"/victim")}, `leads out of a folder`, true},
		"a hard link by a link":      {[]tar.Header{link(tar.TypeSymlink, "a", outside), link(tar.TypeLink, "b", "a/victim")}, `the archive does not have before it`, false},
		"a hard link to nothing":     {[]tar.Header{link(tar.TypeLink, "b", "a")}, `the archive does not have before it`, false},
		"a hard link to itself":      {[]tar.Header{file("a", "x"), link(tar.TypeLink, "a", "a")}, `a hard link to itself`, false},
		"a hard link to a folder":    {[]tar.Header{folderOf("d/"), link(tar.TypeLink, "a", "d")}, `/a of the image: operation not permitted`, false},
		"a file for a folder":        {[]tar.Header{folderOf("d/"), file("d/x", "x"), file("d", "x")}, `a folder is there already`, false},
		"a file below a file":        {[]tar.Header{file("f", "x"), file("f/g", "x")}, `the folder /f cannot be used`, false},
		"a file below a pipe":        {[]tar.Header{{Typeflag: tar.TypeFifo, Name: "p"}, file("p/g", "x")}, `the folder /p cannot be used`, false},
		"a device of strange number": {[]tar.Header{{Typeflag: tar.TypeChar, Name: "c", Devmajor: 4096}}, `which Linux does not have`, true},
		"a long name":                {[]tar.Header{file(strings.Repeat("x", 300), "x")}, `a name of 300 bytes`, true},
		"a long path":                {[]tar.Header{file(strings.Repeat("x/", 3000)+"x", "x")}, `a path of 6001 bytes`, true},
		"a type nobody knows":        {[]tar.Header{{Typeflag: 'V', Name: "label"}}, `is of the type 'V'`, true},
	} {
		root := t.TempDir()
		s := &served{file: one(t, c.entries...)}
		checked, err := Check(t.Context(), s, of(Root, s.file), plenty)
		if early := err != nil; early != c.early {
			t.Errorf("%s: Check says %v", name, err)
		}
		if err == nil {
			_, err = checked.Unpack(t.Context(), root)
			checked.Close()
		}
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
		if text, err := os.ReadFile(victim); string(text) != "untouched" || err != nil {
			t.Fatalf("%s: %q, %v", name, text, err)
		}
		if all, _ := os.ReadDir(outside); len(all) != 1 {
			t.Fatalf("%s: %v is there", name, all)
		}
	}
}

// The last entry of a name counts, as tar has it; a link that is in its way is replaced and not
// followed.
func TestNamesThatComeAgain(t *testing.T) {
	root, _, err := put(t, &served{file: one(t, folderOf("d/"), file("d/a", "one"), link(tar.TypeSymlink, "l", "d/a"), file("d/a", "second"), file("l", "file"),
		link(tar.TypeSymlink, "m", "d"), file("m/b", "by a link"), file("new/folders/c", "c"), link(tar.TypeSymlink, "e", "d"), folderOf("e/"))}, plenty)
	if err != nil {
		t.Fatal(err)
	}
	got := sh(t, `cd "$1"; find . -type f -printf '%p ' -exec cat {} \; -printf '\n' | sort; find . -type d -links +0 | sort | tr '\n' ' '`, root)
	want := "./d/a second\n./d/b by a link\n./l file\n./new/folders/c c\n. ./d ./e ./new ./new/folders "
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// Which file is served, whether it is whole, and what it is is found out before anything is
// written.
func TestCheck(t *testing.T) {
	good := one(t, folderOf("./"), file("./etc/hostname", "n1\n"))
	pack := func(b []byte) []byte {
		e, err := zstd.NewWriter(nil)
		if err != nil {
			t.Fatal(err)
		}
		return e.EncodeAll(b, nil)
	}
	var g bytes.Buffer
	zip := gzip.NewWriter(&g)
	zip.Write(good)
	zip.Close()
	noise := bytes.Repeat([]byte("noise"), 10000)
	for name, c := range map[string]struct {
		file   []byte
		change func(*served, *Image, *Options)
		says   string
	}{
		"right":             {good, nil, ""},
		"right, zstd":       {pack(good), nil, ""},
		"right, gzip":       {g.Bytes(), nil, ""},
		"right, breaks off": {good, func(s *served, _ *Image, _ *Options) { s.cut = 700 }, ""},
		"another digest":    {good, func(_ *served, i *Image, _ *Options) { i.SHA256 = strings.Repeat("ab", 32) }, "and the approved one has abab"},
		"no digest":         {good, func(_ *served, i *Image, _ *Options) { i.SHA256 = "" }, "which names no file"},
		"a changed byte":    {good, func(s *served, _ *Image, _ *Options) { s.file = bytes.Replace(good, []byte("n1\n"), []byte("n2\n"), 1) }, "another file is served"},
		"a changed header": {good, func(s *served, _ *Image, _ *Options) {
			s.file = bytes.Replace(good, []byte("hostname"), []byte("hostnamE"), 1)
		}, "another file is served"},
		"damaged, zstd":             {pack(good), func(s *served, _ *Image, _ *Options) { s.file = bytes.Clone(s.file); s.file[30] ^= 1 }, "another file is served"},
		"cut short":                 {good, func(s *served, _ *Image, _ *Options) { s.file = good[:1000] }, "broke off at byte 1000 of"},
		"longer than approved":      {good, func(s *served, i *Image, _ *Options) { i.Bytes -= 512 }, "another file is served"},
		"gone":                      {good, func(s *served, _ *Image, _ *Options) { s.gone = true }, "broke off at byte 0 of"},
		"too many bytes":            {good, func(_ *served, _ *Image, o *Options) { o.Room = 2 }, "more than the 2 bytes of the file systems"},
		"below what is kept":        {good, func(_ *served, _ *Image, o *Options) { o.Kept = []string{"/etc"} }, "the image has the file /etc/hostname, and at /etc a file system is mounted that is kept"},
		"another kind":              {good, func(_ *served, i *Image, _ *Options) { i.Kind = "installer" }, `of the kind "installer"`},
		"no frames":                 {good, func(_ *served, i *Image, _ *Options) { i.Kind = Disk }, "has no list of frames"},
		"two archives":              {append(bytes.Clone(good), good...), nil, "something follows the end"},
		"two archives, zstd":        {pack(append(bytes.Clone(good), good...)), nil, "something follows the end"},
		"half an archive, approved": {good[:700], nil, "the archive cannot be read"},
		"half of zstd, approved":    {pack(noise)[:20], nil, "the archive cannot be read"},
		"noise, zstd":               {pack(noise), nil, "the archive cannot be read"},
		"noise":                     {noise, nil, "is none of these"},
		"xz":                        {append([]byte("\xfd7zXZ\x00"), noise...), nil, "its head is damaged"},
		"squashfs":                  {append([]byte("hsqs"), noise...), nil, "is a squashfs"},
		"qcow2":                     {append([]byte("QFI\xfb"), noise...), nil, "is a qcow2 image"},
	} {
		t.Run(name, func(t *testing.T) {
			s, im, o := &served{file: c.file}, of(Root, c.file), plenty
			if c.change != nil {
				c.change(s, &im, &o)
			}
			got, err := Check(t.Context(), s, im, o)
			if c.says == "" {
				if err != nil {
					t.Fatal(err)
				}
				defer got.Close()
				if got.Entries != 2 || got.Unpacked != 3 {
					t.Errorf("got %+v", got)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("got %v, want %q", err, c.says)
			}
			var e *wire.Error
			if !errors.As(err, &e) && !strings.Contains(c.says, "broke off") {
				t.Errorf("it is no refusal: %v", err)
			}
			if errors.As(err, &e) && !strings.HasSuffix(err.Error(), "nothing was written") {
				t.Errorf("it does not say that nothing was written: %v", err)
			}
		})
	}
}

// An image that is another one the second time is noticed.
func TestAnotherImageTheSecondTime(t *testing.T) {
	good, other := one(t, file("etc/hostname", "n1\n")), one(t, file("etc/hostname", "n2\n"))
	s := &served{file: good, damage: func(opened int, _ int64, b []byte) []byte {
		if opened > 1 {
			return other
		}
		return b
	}}
	_, _, err := put(t, s, Options{Room: 1 << 40, wait: time.Microsecond})
	if err == nil || !strings.Contains(err.Error(), "the second time") {
		t.Errorf("got %v", err)
	}
	s.opened = 0
	if _, _, err := put(t, s, plenty); err != nil || s.opened != 1 {
		t.Errorf("one that is kept in memory is read %d times: %v", s.opened, err)
	}
}

// A folder that holds something is not for an image; a file system that is kept stays as it is.
func TestWhatIsThereStays(t *testing.T) {
	nspawn.Require(t, "mkfs.ext4", "losetup")
	s := &served{file: one(t, folderOf("./"), tar.Header{Typeflag: tar.TypeDir, Name: "srv/", Mode: 0o700, Uid: 7}, link(tar.TypeSymlink, "by", "srv"), file("etc/x", "x"))}
	c, err := Check(t.Context(), s, of(Root, s.file), plenty)
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "there"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Unpack(t.Context(), root); err == nil || !strings.Contains(err.Error(), "is not a new one") {
		t.Errorf("got %v", err)
	}

	root = t.TempDir()
	disk := filepath.Join(t.TempDir(), "disk")
	sh(t, `truncate -s 16M "$2"; mkfs.ext4 -q "$2"; mkdir "$1/srv"; mount -o loop "$2" "$1/srv"; printf data >"$1/srv/kept"`, root, disk)
	t.Cleanup(func() { sh(t, `umount "$1/srv"`, root) })
	before := sh(t, `cd "$1/srv"; find . -printf '%p %m %U %T+\n'`, root)
	o := plenty
	o.Kept = []string{"/srv"}
	for name, s := range map[string]*served{
		"nothing in it":         s,
		"a file by a link":      {file: one(t, link(tar.TypeSymlink, "by", "srv"), file("by/kept", "x"))},
		"a hard link by a link": {file: one(t, link(tar.TypeSymlink, "by", "srv"), link(tar.TypeLink, "x", "by/kept"))},
		"a folder by a link":    {file: one(t, link(tar.TypeSymlink, "by", "srv"), file("by/new/x", "x"))},
	} {
		sh(t, `cd "$1"; find . -mindepth 1 -maxdepth 1 ! -name srv -exec rm -r {} +`, root)
		c, err := Check(t.Context(), s, of(Root, s.file), o)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		_, err = c.Unpack(t.Context(), root)
		if refused := err != nil && strings.Contains(err.Error(), "on a file system that is kept"); refused != (name != "nothing in it") {
			t.Errorf("%s: %v", name, err)
		}
		if after := sh(t, `cd "$1/srv"; find . -printf '%p %m %U %T+\n'`, root); after != before {
			t.Errorf("%s: before\n%s\nafter\n%s", name, before, after)
		}
	}
}

// Whatever an archive is, nothing beside the folder is changed, and it ends.
func FuzzUnpack(f *testing.F) {
	f.Add(one(f, folderOf("./"), file("./a", "x"), link(tar.TypeSymlink, "l", "/etc"), file("l/passwd", "x"), link(tar.TypeLink, "h", "a")))
	f.Add(one(f, file("../a", "x")))
	f.Add([]byte("\x28\xb5\x2f\xfd"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) == 0 {
			return
		}
		around := t.TempDir()
		root := filepath.Join(around, "root")
		if err := os.Mkdir(root, 0o755); err != nil {
			t.Fatal(err)
		}
		o := plenty
		o.Room = 8 << 20
		c, err := Check(t.Context(), &served{file: b}, of(Root, b), o)
		if err == nil {
			_, _ = c.Unpack(t.Context(), root) // what it says does not matter
			c.Close()
		}
		if all, err := os.ReadDir(around); err != nil || len(all) != 1 {
			t.Errorf("beside the folder there is %v, %v", all, err)
		}
	})
}
