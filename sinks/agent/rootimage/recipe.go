package rootimage

import (
	_ "embed"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/cuecontext"
	"cuelang.org/go/cue/errors"
)

// Recipe says what an image is made from.
type Recipe struct {
	// From is a name in Releases. The recipe starts with that release's suite, sources and packages.
	From string `json:"from,omitempty"`
	// Suite is the codename of another release. mmdebstrap must know its keys, or Sources must name them.
	Suite string `json:"suite,omitempty"`
	// Sources are lines of sources.list(5) that replace those of the release.
	Sources []string `json:"sources,omitempty"`
	// Packages are installed in addition to those of the release.
	Packages []string `json:"packages,omitempty"`
	// Run are shell commands that run as root in the new system, in this order, after all packages are installed.
	Run []string `json:"run,omitempty"`
}

//go:embed recipe.cue
var schema string

// maxRecipe bounds the file of a recipe, in bytes.
const maxRecipe = 1 << 20

// codenames are the releases that a recipe can start from.
var codenames = map[string]string{"debian11": "bullseye", "debian12": "bookworm", "debian13": "trixie"}

// Releases lists the names that a recipe can start from, such as "debian12".
func Releases() []string { return slices.Sorted(maps.Keys(codenames)) }

// IsRelease reports whether a recipe can start from a name.
func IsRelease(name string) bool { return codenames[name] != "" }

// ReadRecipe reads a recipe in CUE. See recipe.cue for its form.
func ReadRecipe(name string) (Recipe, error) {
	info, err := os.Stat(name)
	if err == nil && info.Size() > maxRecipe {
		err = fmt.Errorf("%s has %d bytes; a recipe has at most %d", name, info.Size(), maxRecipe)
	}
	if err != nil {
		return Recipe{}, err
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return Recipe{}, err
	}
	ctx := cuecontext.New()
	form := ctx.CompileString(schema, cue.Filename("recipe.cue")).LookupPath(cue.ParsePath("#Recipe"))
	value := ctx.CompileBytes(text, cue.Filename(name))
	whole := form.Unify(value)
	if err := value.Err(); err != nil {
		return Recipe{}, inWords(name, err)
	}
	if err := whole.Validate(cue.Concrete(true)); err != nil {
		return Recipe{}, inWords(name, err)
	}
	var r Recipe
	if err := whole.Decode(&r); err != nil {
		return Recipe{}, inWords(name, err)
	}
	if r.From == "" && (r.Suite == "" || len(r.Sources) == 0) {
		return Recipe{}, fmt.Errorf("%s: it names no release to begin with: add `from`, one of %s; or `suite` and `sources`", name, strings.Join(Releases(), ", "))
	}
	return r, nil
}

// inWords is CUE's first error, with its place in the file.
func inWords(name string, err error) error {
	first := errors.Errors(err)[0]
	at := name
	for _, p := range errors.Positions(first) {
		if p.Filename() == name {
			at = fmt.Sprintf("%s:%d:%d", name, p.Line(), p.Column())
			break
		}
	}
	format, args := first.Msg()
	what := fmt.Sprintf(format, args...)
	if path := strings.Join(first.Path(), "."); path != "" && !strings.HasPrefix(what, path) {
		what = strings.TrimPrefix(path, "#Recipe.") + ": " + what
	}
	return fmt.Errorf("%s: %s; `slipway help image build` shows a recipe", at, what)
}

// whole is the recipe completed from its release.
func (r Recipe) whole(arch string) Recipe {
	if r.From == "" {
		return r
	}
	suite := codenames[r.From]
	security := suite + "-security"
	if r.Suite == "" {
		r.Suite = suite
	}
	if len(r.Sources) == 0 {
		r.Sources = []string{
			"deb http://deb.debian.org/debian " + suite + " main",
			"deb http://deb.debian.org/debian " + suite + "-updates main",
			"deb http://deb.debian.org/debian-security " + security + " main",
		}
	}
	of := slices.Concat(packages, []string{"linux-image-" + arch, "grub-efi-" + arch + "-bin"})
	if arch == "amd64" {
		of = append(of, "grub-pc-bin")
	}
	if r.From != "debian11" { // its systemd includes it
		of = append(of, "systemd-resolved")
	}
	r.Packages = slices.Compact(slices.Sorted(slices.Values(slices.Concat(of, r.Packages))))
	return r
}

// packages are what a Debian server needs in every disk layout: to boot, to mount its file systems, and to be
// reached by Slipway and people.
var packages = []string{
	"apt", "bash-completion", "btrfs-progs", "ca-certificates", "dbus", "dosfstools", "e2fsprogs", "efibootmgr", "grub2-common",
	"initramfs-tools", "iproute2", "iputils-ping", "kmod", "less", "lvm2", "mdadm", "nano", "openssh-server", "sudo", "systemd-sysv",
	"systemd-timesyncd", "udev", "xfsprogs", "zstd",
}

var nameForm = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{0,62}$`)

// IsName reports whether a text can be the name of an image, which starts its file's name.
func IsName(text string) bool { return nameForm.MatchString(text) }
