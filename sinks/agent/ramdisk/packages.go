package ramdisk

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/ulikunitz/xz"
)

// These are the Debian packages for a ramdisk.
const (
	stubPackage   = "systemd-boot-efi"
	kernelPackage = "linux-image-amd64" // depends on the package of the newest kernel
	architecture  = "amd64"
)

// kernelName matches the name of a package with a kernel, and captures the release.
var kernelName = regexp.MustCompile(`^linux-image-([0-9][0-9a-z.+~-]*)$`)

// Package is a package that a ramdisk was built from.
type Package struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	// SHA256 is the digest of the package's file, in lower-case hex.
	SHA256 string `json:"sha256"`
}

// packages are the open packages of a ramdisk.
type packages struct{ kernel, stub *deb }

func (p packages) Close() {
	for _, d := range []*deb{p.kernel, p.stub} {
		if d != nil {
			d.Close()
		}
	}
}

// inFolder finds the packages among the files of a folder.
func inFolder(folder string) (p packages, err error) {
	names, err := filepath.Glob(filepath.Join(escaped(folder), "*.deb"))
	if err != nil {
		return p, err
	}
	if _, err := os.ReadDir(folder); err != nil {
		return p, fmt.Errorf("the folder of packages cannot be read: %w", err)
	}
	defer func() {
		if err != nil {
			p.Close()
		}
	}()
	for _, name := range names {
		base, _, _ := strings.Cut(filepath.Base(name), "_")
		if base != stubPackage && !kernelName.MatchString(base) {
			continue // other files need not be complete
		}
		d, err := openDeb(name)
		if err != nil {
			return p, err
		}
		place := &p.stub
		if kernelName.MatchString(d.fields["Package"]) {
			place = &p.kernel
		}
		if *place != nil {
			other := (*place).file.Name()
			d.Close()
			return p, oneOf(other, name)
		}
		*place = d
		if err := d.fits(); err != nil {
			return p, err
		}
	}
	for _, lack := range []struct {
		d          *deb
		name, like string
	}{{p.kernel, "a kernel", "linux-image-6.1.0-56-amd64_….deb"}, {p.stub, "the EFI stub of systemd", stubPackage + "_….deb"}} {
		if lack.d == nil {
			return p, fmt.Errorf("%s has no package with %s: put %s there (`apt-get download` fetches it)", folder, lack.name, lack.like)
		}
	}
	return p, nil
}

// pool is the packages in a folder. If download is set, apt downloads requested packages to it.
type pool struct {
	folder   string
	download bool
	all      []*deb
}

func (p *pool) Close() {
	for _, d := range p.all {
		d.Close()
	}
}

// packageName matches a valid package name (Debian Policy, section 5.6.7).
var packageName = regexp.MustCompile(`^[a-z0-9][a-z0-9+.-]+$`)

// get opens packages by name. A missing package is an error if must is set.
func (p *pool) get(ctx context.Context, names []string, must bool) (map[string]*deb, error) {
	for _, name := range names {
		if !packageName.MatchString(name) {
			return nil, fmt.Errorf("%q is not the name of a package", name)
		}
	}
	if p.download {
		if err := download(ctx, p.folder, names...); err != nil {
			return nil, err
		}
	}
	all := map[string]*deb{}
	var absent []string
	for _, name := range names {
		files, err := filepath.Glob(filepath.Join(escaped(p.folder), name+"_*.deb"))
		switch {
		case err != nil:
			return all, err
		case len(files) > 1:
			return all, oneOf(files[0], files[1])
		case len(files) == 0:
			absent = append(absent, name)
			continue
		}
		d, err := openDeb(files[0])
		if err != nil {
			return all, err
		}
		p.all, all[name] = append(p.all, d), d
		if d.fields["Package"] != name {
			return all, fmt.Errorf("%s is the package %s: give it its own name", files[0], d.fields["Package"])
		}
		if err := d.fits(); err != nil {
			return all, err
		}
	}
	if must && len(absent) > 0 {
		return all, fmt.Errorf("%s lacks packages with programs for disks: put %s there (`apt-get download` fetches them)", p.folder, strings.Join(absent, ", "))
	}
	return all, nil
}

// oneOf is the error for two packages where only one is allowed.
func oneOf(one, other string) error {
	return fmt.Errorf("%s and %s are in the folder of packages, and a ramdisk is made of one of them: take the other one away", filepath.Base(one), filepath.Base(other))
}

// fits checks that a package is for the ramdisk's architecture.
func (d *deb) fits() error {
	if is := d.fields["Architecture"]; is != architecture {
		return fmt.Errorf("%s is for machines of the architecture %s, and a ramdisk is made for %s", d.file.Name(), is, architecture)
	}
	return nil
}

// escaped escapes a path for filepath.Glob.
func escaped(path string) string {
	return regexp.MustCompile(`[\\*?\[]`).ReplaceAllString(path, `\$0`)
}

// fetch makes apt download the packages to a folder, with this host's configuration. apt verifies them.
func fetch(ctx context.Context, folder string) error {
	if err := download(ctx, folder, stubPackage, kernelPackage); err != nil {
		return err
	}
	names, err := filepath.Glob(filepath.Join(escaped(folder), kernelPackage+"_*.deb"))
	if err != nil || len(names) != 1 {
		return fmt.Errorf("apt did not bring the package %s (%d files)", kernelPackage, len(names))
	}
	d, err := openDeb(names[0])
	if err != nil {
		return err
	}
	defer d.Close()
	for _, need := range strings.Split(d.fields["Depends"], ",") {
		if name, _, _ := strings.Cut(strings.TrimSpace(need), " "); kernelName.MatchString(name) {
			return download(ctx, folder, name)
		}
	}
	return fmt.Errorf("the package %s names no kernel: it depends on %q", kernelPackage, d.fields["Depends"])
}

// download makes apt download packages to a folder. It needs no root, because it writes neither lists nor cache.
func download(ctx context.Context, folder string, names ...string) error {
	args := []string{"-q", "download"}
	for _, n := range names {
		args = append(args, n+":"+architecture)
	}
	cmd := exec.CommandContext(ctx, "apt-get", args...)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
	out, err := cmd.CombinedOutput()
	switch {
	case err == nil:
		return nil
	case errors.Is(err, exec.ErrNotFound):
		return errors.New("there is no apt-get on this host: fetch the packages elsewhere and name their folder with --debs (docs/ramdisk.md lists them)")
	case ctx.Err() != nil:
		return ctx.Err()
	case strings.Contains(string(out), "Unable to locate package"):
		return fmt.Errorf("apt does not know %s: run `apt-get update`, or fetch the packages elsewhere and name their folder with --debs", strings.Join(names, " and "))
	}
	return fmt.Errorf("apt-get download %s: %w: %s", strings.Join(names, " "), err, lastLine(out))
}

func lastLine(out []byte) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return lines[len(lines)-1]
}

// stubProgram is the program that starts the kernel in a unified kernel image.
func (p packages) stubProgram() ([]byte, error) {
	var program []byte
	err := p.stub.each("data.tar", func(name string, h *tar.Header, content io.Reader) (err error) {
		if name == "usr/lib/systemd/boot/efi/linuxx64.efi.stub" {
			program, err = readFile(h, content)
		}
		return err
	})
	if err == nil && program == nil {
		err = errors.New("it has no linuxx64.efi.stub")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.stub.file.Name(), err)
	}
	return program, nil
}

// kernel is a kernel with its modules by name.
type kernel struct {
	release string
	image   []byte
	modules map[string]*module
}

// readKernel reads a kernel and all its modules. tell receives how many bytes of the package were unpacked.
func (p packages) readKernel(ctx context.Context, tell func(bytes int64)) (*kernel, error) {
	k := &kernel{modules: map[string]*module{}}
	var bytesRead int64
	err := p.kernel.each("data.tar", func(name string, h *tar.Header, content io.Reader) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		bytesRead += h.Size
		tell(bytesRead)
		if release, ok := strings.CutPrefix(name, "boot/vmlinuz-"); ok && h.Typeflag == tar.TypeReg {
			image, err := readFile(h, content)
			k.release, k.image = release, image
			return err
		}
		_, file, isModule := strings.Cut(strings.TrimPrefix(name, "usr/"), "lib/modules/")
		if !isModule || h.Typeflag != tar.TypeReg || !strings.Contains(filepath.Base(file), ".ko") {
			return nil
		}
		_, below, _ := strings.Cut(file, "/")
		if isForeign(below) {
			return nil
		}
		text, err := readFile(h, content)
		if err != nil {
			return err
		}
		if below, text, err = unpackedModule(below, text); err != nil {
			return err
		}
		m, err := readModule(below, text)
		if err != nil {
			return err
		}
		k.modules[moduleName(below)] = m
		return nil
	})
	if err == nil && k.image == nil {
		err = errors.New("it has no kernel below /boot")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.kernel.file.Name(), err)
	}
	return k, nil
}

// unpackedModule is a module without compression, as the agent gives it to the kernel. Debian compresses modules
// since release 13.
func unpackedModule(file string, packed []byte) (string, []byte, error) {
	name, ok := strings.CutSuffix(file, ".xz")
	if !ok {
		return file, packed, nil
	}
	r, err := xz.NewReader(bytes.NewReader(packed))
	if err != nil {
		return "", nil, fmt.Errorf("%s: %w", file, err)
	}
	all, err := io.ReadAll(io.LimitReader(r, maxFile))
	return name, all, err
}

// told is a package's name and version, with its digest.
func told(d *deb) (Package, error) {
	sum, err := d.digest()
	return Package{d.fields["Package"], d.fields["Version"], sum}, err
}
