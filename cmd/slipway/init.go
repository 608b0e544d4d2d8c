package main

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/slipway-gitops/slipway/engine/design"
	"github.com/slipway-gitops/slipway/engine/say"
)

// template is the site that init writes, by the name of templateSite. People
// may read it where it is.
//
//go:embed all:template
var template embed.FS

const templateSite = "mysite"

func (a *app) initCommand() *cobra.Command {
	var name string
	var lab bool
	cmd := &cobra.Command{
		Use: "init [DIR]", Short: "write a new site that checks clean", Args: atMost(1),
		Long: "Writes a small site with two nodes to start from, in a new folder or one that has none\n" +
			"of its files yet. Comments explain each part. It asks nothing, overwrites nothing and\n" +
			"says what to do next.\n" + exitHelp,
		Example: "  slipway init my-site\n  slipway init --name berlin .\n  slipway init --lab rehearsal",
		RunE:    func(_ *cobra.Command, args []string) error { return a.initSite(folder(args), name, lab) },
	}
	cmd.Flags().BoolVar(&lab, "lab", false, "use addresses of this host, for the simulated machines of slipway-lab")
	cmd.Flags().StringVar(&name, "name", "", "the site's name; the default is the folder's name")
	return cmd
}

// begun is what init prints as JSON.
type begun struct {
	Site  string   `json:"site"`
	Dir   string   `json:"dir"`
	Files []string `json:"files"`
	// FillIn is what only the person knows, and where it goes.
	FillIn []string `json:"fillIn,omitempty"`
	// Next are commands to go on with.
	Next []string `json:"next"`
}

func (a *app) initSite(dir, name string, lab bool) error {
	name, err := newSiteName(dir, name)
	if err != nil {
		return err
	}
	var changes []string
	if lab {
		changes = atLab
	}
	files, err := newSite(name, changes...)
	if err != nil {
		return err
	}
	if err := writeNew(dir, files); err != nil {
		return err
	}
	done := begun{Site: name, Dir: dir, Next: []string{"slipway check", "git init", "git add .", "git commit -m \"the site\""}}
	if filepath.Clean(dir) != "." {
		done.Next = slices.Insert(done.Next, 0, "cd "+shellWord(dir))
	}
	for _, f := range files {
		done.Files = append(done.Files, f.name)
	}
	if lab {
		done.Next = append(done.Next, "slipway-lab run --site . --credentials FOLDER")
	} else {
		done.FillIn = fillIn
	}
	if a.output == "json" {
		return a.out.JSON(done)
	}
	a.out.Printf("%s: %s of the new site %s\n", dir, say.Count(len(files), "file"), name)
	for _, f := range done.Files {
		a.out.Printf("  %s\n", f)
	}
	if len(done.FillIn) > 0 {
		a.out.Printf("\nThe addresses are for examples. Fill in what only you know:\n")
	}
	for _, f := range done.FillIn {
		a.out.Printf("  %s\n", f)
	}
	a.out.Printf("\nNext steps, besides those in README.md:\n")
	for _, c := range done.Next {
		a.out.Printf("  %s\n", c)
	}
	return nil
}

// shellWord is a text as a shell takes it for one word.
func shellWord(s string) string {
	if plainWord.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9._/+,@%][A-Za-z0-9._/+,@%-]*$`)

var packageNames = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]{0,62}$`)

// isPackageName says whether CUE takes a text for a package's name, and anyone
// for a site's.
func isPackageName(s string) bool {
	if !packageNames.MatchString(s) {
		return false
	}
	_, findings := design.FormatHere("", []byte("package "+s)) // not so with a word of CUE's own
	return len(findings) == 0
}

// newSiteName is the wanted name, or one made of the folder's.
func newSiteName(dir, want string) (string, error) {
	if want != "" {
		if !isPackageName(want) {
			return "", usage("--name %q cannot name a site: it begins with a letter and has letters, digits and \"_\", as a package of CUE", want)
		}
		return want, nil
	}
	whole, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	name := strings.NewReplacer("-", "_", ".", "_", " ", "_").Replace(filepath.Base(whole))
	if !isPackageName(name) {
		return "", usage("the folder's name %q cannot name a site: say --name NAME, with letters, digits and \"_\"", filepath.Base(whole))
	}
	return name, nil
}

// newFile is a file to be.
type newFile struct {
	name string
	text []byte
}

// fillIn is what a new site cannot know.
var fillIn = []string{
	"networks.cue  your networks",
	"profiles.cue  how Slipway reaches the management controllers, and checks who answers (trust)",
	"rack-1.cue    your machines: addresses and identities (Slipway writes to no machine without an identity)",
}

// atLab are the addresses of a site for the laboratory instead of those for
// examples (RFC 5737).
var atLab = []string{"192.0.2.", "127.83.1.", "198.51.100.", "127.83.2.", "{addresses.bmc}/", "{addresses.bmc}:8443/",
	"use: redfish\n", "use: redfish\n       ports: 8443\n"}

// newSite is the site that init writes, with changes as strings.NewReplacer takes
// them.
func newSite(name string, changes ...string) ([]newFile, error) {
	change := strings.NewReplacer(append([]string{templateSite, name}, changes...)...)
	var files []newFile
	err := fs.WalkDir(template, "template", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := template.ReadFile(path)
		files = append(files, newFile{
			name: strings.TrimPrefix(path, "template/"),
			text: []byte(change.Replace(string(text))),
		})
		return err
	})
	return files, err
}

// writeNew writes files that are not there yet, or none.
func writeNew(dir string, files []newFile) error {
	if path, err := obstacle(dir, files); path != "" || err != nil {
		return cmp.Or(err, fmt.Errorf("%s exists already, and nothing was written: name a new folder, or move the file", path))
	}
	for _, f := range files {
		path := filepath.Join(dir, f.name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := createFile(path, f.text); err != nil {
			return err
		}
	}
	return nil
}

// obstacle is a file that is where one is to be, or another one of CUE, which
// would be a part of the site. Empty means none.
func obstacle(dir string, files []newFile) (string, error) {
	there, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	for _, d := range there {
		if filepath.Ext(d.Name()) == ".cue" {
			return filepath.Join(dir, d.Name()), nil
		}
	}
	for _, f := range files {
		path := filepath.Join(dir, f.name)
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			return path, err
		}
	}
	return "", nil
}

// createFile writes a file that is not there.
func createFile(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}
