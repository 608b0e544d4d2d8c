package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

const homePage = "https://github.com/slipway-gitops/slipway"

// writePackages writes the packages for an architecture.
func writePackages(out, arch string, r release, tree []entry) error {
	for _, format := range []string{"deb", "rpm"} {
		if err := writePackage(out, format, arch, r, tree); err != nil {
			return fmt.Errorf("%s for %s: %w", format, arch, err)
		}
	}
	return nil
}

func writePackage(out, format, arch string, r release, tree []entry) error {
	contents, remove, err := contentsOf(format, r, tree)
	defer remove()
	if err != nil {
		return err
	}
	info := nfpm.WithDefaults(&nfpm.Info{
		Name: "slipway", Arch: arch, Platform: "linux", Version: r.version, VersionSchema: "none", MTime: r.time,
		Section: "admin", Priority: "optional", Maintainer: "The Slipway authors", Homepage: homePage, License: "Apache-2.0",
		Description: "keeps servers in the state described in Git\nSlipway follows a Git repository of CUE site designs and makes bare-metal machines and\nvirtual machines so. It erases nothing that a person did not approve.",
		Overridables: nfpm.Overridables{
			// systemd 251 hands over whole folders of credentials.
			Depends: map[string][]string{"deb": {"systemd (>= 251)"}, "rpm": {"systemd >= 251"}}[format],
			// HTTPS remotes need certificates; remotes that are a path need git.
			Recommends: []string{"ca-certificates", "git"}, Contents: contents,
			Scripts: nfpm.Scripts{PostInstall: "postinstall.sh", PreRemove: "preremove.sh", PostRemove: "postremove.sh"},
			RPM:     nfpm.RPM{BuildHost: "slipway", Summary: "Keeps servers in the state described in Git", Compression: "gzip:6"},
			Deb:     nfpm.Deb{Compression: "gzip"},
		},
	})
	packager, err := nfpm.Get(format)
	if err != nil {
		return err
	}
	if err := nfpm.PrepareForPackager(info, format); err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(out, packager.ConventionalFileName(info)))
	if err != nil {
		return err
	}
	return errors.Join(packager.Package(info, f), f.Close())
}

// contentsOf is a tree as nfpm takes it: of files, which are removed afterwards.
func contentsOf(format string, r release, tree []entry) (contents files.Contents, remove func(), err error) {
	work, err := os.MkdirTemp("", "packaging-")
	remove = func() { os.RemoveAll(work) }
	if err != nil {
		return nil, remove, err
	}
	for i, e := range tree {
		c := &files.Content{Destination: e.path, Source: e.from, Type: files.TypeFile,
			FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: e.mode, MTime: r.time}}
		switch {
		case e.folder:
			c.Type = files.TypeDir
		case e.config:
			c.Type = files.TypeConfigNoReplace
		}
		if e.path == "/usr/share/zsh/vendor-completions/_slipway" && format == "rpm" {
			c.Destination = "/usr/share/zsh/site-functions/_slipway"
		}
		if e.text != nil {
			c.Source = filepath.Join(work, fmt.Sprint(i))
			if err := os.WriteFile(c.Source, e.text, 0o600); err != nil {
				return nil, remove, err
			}
		}
		contents = append(contents, c)
	}
	return contents, remove, nil
}
