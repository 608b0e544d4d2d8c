package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/slipway-gitops/slipway/engine/sops"
)

func (c *checkout) openSOPS(path string, text []byte) (*sops.File, *sops.Content, error) {
	f, err := sops.Parse(path, text)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	id, err := c.identity()
	if err != nil {
		return nil, nil, err
	}
	content, err := f.Open(id)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, content, nil
}

func (a *app) showSecretCommand() *cobra.Command {
	var f sealFlags
	cmd := &cobra.Command{
		Use: "show NAME [DIR]", Short: "decrypt a secret, to a terminal", Args: nameAndFolder,
		Long: "Shows a secret with the hosts and uses that it is for. It is shown only on a terminal, so\n" +
			"that it gets into no file or log by mistake; --output json writes it anywhere.\n" + exitHelp,
		Example: "  slipway secret show bmc\n  slipway secret show bmc --output json",
		RunE: func(_ *cobra.Command, args []string) error {
			if err := checkName(args[0]); err != nil {
				return err
			}
			if a.output != "json" && !a.out.Terminal() {
				return errors.New("a secret is shown only on a terminal; to write it elsewhere, pass --output json")
			}
			c, err := openCheckout(a.err, folder(args[1:]), f)
			if err != nil {
				return err
			}
			s, err := c.open(args[0])
			if err != nil {
				return err
			}
			return a.showSecret(s)
		},
	}
	f.add(cmd)
	f.addSOPS(cmd)
	return cmd
}

func (a *app) showSecret(s openedSecret) error {
	if a.output != "json" {
		return a.out.Lay(string(s.text) + "\n")
	}
	head, value, _ := strings.Cut(string(s.text), "\n\n")
	header := map[string]string{}
	for line := range strings.Lines(head) {
		key, value, _ := strings.Cut(line, ":")
		header[strings.TrimSpace(key)] = strings.TrimSpace(value)
	}
	return a.out.JSON(struct {
		Site       string            `json:"site"`
		Name       string            `json:"name"`
		Set        time.Time         `json:"set,omitzero"`
		Changed    time.Time         `json:"changed,omitzero"`
		Recipients []string          `json:"recipients,omitempty"`
		Header     map[string]string `json:"header"`
		Secret     string            `json:"secret"`
	}{s.header.Site, s.header.Name, s.header.Set, s.header.Changed, s.header.Recipients, header, value})
}

func (a *app) editSecretCommand() *cobra.Command {
	var f sealFlags
	cmd := &cobra.Command{
		Use: "edit NAME [DIR]", Short: "edit a secret with its header in $EDITOR", Args: nameAndFolder,
		Long: "Decrypts a secret into a file in memory (tmpfs) that only you can read, runs $VISUAL or\n" +
			"$EDITOR on it, encrypts what you saved for the site's recipients, and removes the file. A\n" +
			"text that is not a credential changes nothing.\n" + exitHelp,
		Example: "  slipway secret edit bmc",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.editSecret(cmd.Context(), args[0], folder(args[1:]), f)
		},
	}
	f.add(cmd)
	f.addSOPS(cmd)
	f.addYes(cmd)
	return cmd
}

func (a *app) editSecret(ctx context.Context, name, dir string, f sealFlags) error {
	if err := checkName(name); err != nil {
		return err
	}
	c, err := openCheckout(a.err, dir, f)
	if err != nil {
		return err
	}
	to, err := c.recipients()
	if err != nil {
		return err
	}
	s, err := c.open(name)
	if err != nil {
		return err
	}
	if err := a.admit(c, c.path(c.fileOf(name)), c.newReaders(s, to)); err != nil {
		return err
	}
	text, err := edited(ctx, name, append(slices.Clone(s.text), '\n'))
	if err != nil {
		return err
	}
	text = bytes.TrimSuffix(text, []byte("\n"))
	if bytes.Equal(text, s.text) {
		a.err.Println("slipway: nothing was changed")
		return nil
	}
	return a.seal(c, name, s, text, to)
}

// inMemory is a new folder in memory that only this user can read.
func inMemory() (string, error) {
	for _, folder := range []string{os.Getenv("XDG_RUNTIME_DIR"), "/dev/shm", "/run"} {
		var fs unix.Statfs_t
		if folder == "" || unix.Statfs(folder, &fs) != nil || fs.Type != unix.TMPFS_MAGIC && fs.Type != unix.RAMFS_MAGIC {
			continue
		}
		if dir, err := os.MkdirTemp(folder, "slipway-secret-*"); err == nil {
			return dir, nil
		}
	}
	return "", errors.New("no folder in memory (tmpfs) can be written, and a secret in clear text is not put on a disk: set XDG_RUNTIME_DIR to one, or use `slipway secret set`")
}

// edited is a text after a person edited it.
func edited(ctx context.Context, name string, text []byte) (after []byte, err error) {
	dir, err := inMemory()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return nil, err
	}
	editor := os.Getenv("VISUAL")
	if editor == "" {
		editor = os.Getenv("EDITOR")
	}
	if editor == "" {
		return nil, errors.New("neither VISUAL nor EDITOR names an editor: set one, or use `slipway secret set`")
	}
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", editor+` "$1"`, "sh", path)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("the editor failed, and the secret was not changed: %w", err)
	}
	after, _, err = readBounded(path)
	if err == nil && len(after) > mostValue {
		err = fmt.Errorf("the secret has more than %d KiB, which no password or key needs", mostValue>>10)
	}
	return after, err
}
