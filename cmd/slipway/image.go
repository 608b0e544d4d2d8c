package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/slipway-gitops/slipway/engine/artifact"
	"github.com/slipway-gitops/slipway/engine/say"
	"github.com/slipway-gitops/slipway/sinks/agent/rootimage"
)

func (a *app) imageCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "image", Short: "make images of systems", Args: knownCommand,
		Long: "A root image is an archive with the files of a system, which the agent unpacks onto the\n" +
			"disks of a machine. See docs/images.md.\n" + exitHelp,
		Example: "  slipway image build debian12 --out /srv/images",
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.imageBuildCommand())
	return cmd
}

func (a *app) imageBuildCommand() *cobra.Command {
	var o rootimage.Options
	var recipe string
	cmd := &cobra.Command{
		Use: "build NAME", Short: "make a root image with mmdebstrap", Args: exactly(1),
		Long: "Makes NAME-ARCH.tar.zst, the files of a small server with a kernel, boot loaders and an\n" +
			"SSH server, and prints its digest for the design. NAME is a release (" + strings.Join(rootimage.Releases(), ", ") + "),\n" +
			"or any name with --recipe, a file in CUE:\n\n" +
			"  from:     \"debian12\"\n" +
			"  packages: [\"nginx\", \"htop\"]\n" +
			"  run:      [\"systemctl disable nginx\"]\n\n" +
			"mmdebstrap downloads the packages and verifies them with the keys of their archive. It runs\n" +
			"as root, or as a user who may make user namespaces, and needs about 3 GB in TMPDIR. With\n" +
			"SOURCE_DATE_EPOCH set, the same packages give the same file.\n" + exitHelp,
		Example: "  slipway image build debian12 --out /srv/images\n" +
			"  slipway image build web --recipe web.cue --out /srv/images",
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if o.Name = args[0]; !rootimage.IsName(o.Name) {
				return usage("%q is not a name for an image: use lower-case letters, digits, \".\" and \"-\"", o.Name)
			}
			if o.Epoch, err = sourceDate(); err != nil {
				return err
			}
			o.Recipe = rootimage.Recipe{From: o.Name}
			if recipe != "" {
				if o.Recipe, err = rootimage.ReadRecipe(recipe); err != nil {
					return err
				}
			} else if !rootimage.IsRelease(o.Name) {
				return usage("%q is not one of %s: name one of these, or a recipe with --recipe FILE", o.Name, strings.Join(rootimage.Releases(), ", "))
			}
			show, done := a.workProgress()
			defer done()
			o.Progress = func(what string, have, of int64) {
				if have > 0 {
					what += ", " + artifact.Bytes(have)
				}
				show(what, have, of)
			}
			if err := os.MkdirAll(o.Out, 0o755); err != nil {
				return err
			}
			b, err := rootimage.Build(cmd.Context(), o)
			if err != nil {
				return err
			}
			done()
			return a.tellImage(b, o.Name)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&recipe, "recipe", "", "make it as this `FILE` says")
	flags.StringVar(&o.Out, "out", ".", "the `FOLDER` that is written to")
	flags.StringVar(&o.Arch, "arch", "", "`ARCHITECTURE` of the packages, amd64 or arm64 (default that of this computer)")
	return cmd
}

// sourceDate is the time of SOURCE_DATE_EPOCH, the zero value without it. See
// https://reproducible-builds.org/specs/source-date-epoch/.
func sourceDate() (time.Time, error) {
	text := os.Getenv("SOURCE_DATE_EPOCH")
	if text == "" {
		return time.Time{}, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return time.Time{}, usage("SOURCE_DATE_EPOCH is %q; it is a number of seconds since 1970", text)
	}
	return time.Unix(n, 0), nil
}

func (a *app) tellImage(b *rootimage.Built, name string) error {
	if a.output == "json" {
		return a.out.JSON(b)
	}
	a.out.Printf("%s  %s  %s\n", b.SHA256, artifact.Bytes(b.Bytes), b.Path)
	a.out.Printf("%s of %s, %s unpacked\n", say.Count(len(b.Packages), "package"), b.Suite, artifact.Bytes(b.Unpacked))
	a.out.Printf("put it where the daemon fetches it, or run `slipway artifact add %s`; in the design:\n\n", b.Path)
	a.out.Printf("images: %q: {\n\tkind:   \"root\"\n\turl:    \"https://…/%s\"\n\tsha256: \"%s\"\n}\n", name, filepath.Base(b.Path), b.SHA256)
	return nil
}
