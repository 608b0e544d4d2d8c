package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os/user"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/slipway-gitops/slipway/engine/access"
)

func (a *app) tokenCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "token", Short: "make tokens with which programs use the API", Args: knownCommand,
		Long: "A program shows a token to the API of a daemon (slipway run --api). These commands work on\n" +
			"the daemon's host, as root. A token has a lifetime, and the host keeps only its digest.\n" +
			"What it allows stands in /etc/slipway/access.conf. No token approves anything.\n" + exitHelp,
		Example: "  slipway token create grafana --for 2160h\n  slipway token list\n  slipway token revoke grafana",
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.createTokenCommand(), a.listTokensCommand(), a.revokeTokenCommand())
	return cmd
}

// issuedToken is what `token create` prints as JSON.
type issuedToken struct {
	Name    string    `json:"name"`
	Token   string    `json:"token"`
	Expires time.Time `json:"expires"`
}

func (a *app) createTokenCommand() *cobra.Command {
	var folder string
	var life time.Duration
	cmd := &cobra.Command{
		Use: "create NAME --for TIME", Short: "make a token, and print it once", Args: exactly(1),
		Long: "Prints the token, which is kept nowhere else. For another one of the same name revoke the\n" +
			"first.\n" + exitHelp,
		Example: "  slipway token create grafana --for 2160h > grafana.token",
		RunE: func(_ *cobra.Command, args []string) error {
			if life == 0 {
				return usage("create needs --for: say how long the token is valid, such as 720h")
			}
			now := time.Now()
			text, err := access.Tokens{Folder: folder}.Make(args[0], userHere(), now, life)
			switch {
			case errors.Is(err, fs.ErrExist):
				return fmt.Errorf("there is a token %s already: revoke it first with `slipway token revoke %s`, or take another name", args[0], args[0])
			case errors.Is(err, fs.ErrPermission):
				return fmt.Errorf("%w: run this as root on the daemon's host", err)
			case err != nil:
				return err
			}
			expires := now.Add(life).UTC().Truncate(time.Second)
			if a.output == "json" {
				return a.out.JSON(issuedToken{args[0], text, expires})
			}
			a.err.Printf("Token %s is valid until %s. What it allows is in the lines \"token %s: ROLE\" of %s.\n", args[0], expires.Format(time.RFC3339), args[0], accessFile)
			return a.out.Println(text)
		},
	}
	cmd.Flags().DurationVar(&life, "for", 0, "how long it is valid, such as 720h; at most 8784h, a year")
	addTokens(cmd.Flags(), &folder)
	return cmd
}

// userHere is who runs the command.
func userHere() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return ""
}

func (a *app) listTokensCommand() *cobra.Command {
	var folder string
	cmd := &cobra.Command{
		Use: "list", Short: "list the tokens", Args: exactly(0),
		Long:    "Lists the tokens with their lifetimes. The tokens themselves are kept nowhere.\n" + exitHelp,
		Example: "  slipway token list",
		RunE: func(*cobra.Command, []string) error {
			all, err := access.Tokens{Folder: folder}.List()
			if a.output == "json" {
				return errors.Join(err, a.out.JSON(append([]access.Issued{}, all...)))
			}
			if len(all) == 0 {
				a.out.Println("there is no token")
				return err
			}
			t := newTable("token", "made", "by", "valid until", "")
			for _, i := range all {
				over := ""
				if !time.Now().Before(i.Expires) {
					over = "expired"
				}
				t.AppendRow(table.Row{i.Name, i.Created.Local().Format(time.DateTime), i.By, i.Expires.Local().Format(time.DateTime), over})
			}
			a.out.Println(t.Render())
			return err
		},
	}
	addTokens(cmd.Flags(), &folder)
	return cmd
}

func (a *app) revokeTokenCommand() *cobra.Command {
	var folder string
	cmd := &cobra.Command{
		Use: "revoke NAME", Short: "take a token back", Args: exactly(1),
		Long:    "The daemon refuses it from its next request on, and ends its streams within 15 s.\n" + exitHelp,
		Example: "  slipway token revoke grafana",
		RunE: func(_ *cobra.Command, args []string) error {
			err := access.Tokens{Folder: folder}.Revoke(args[0])
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return fmt.Errorf("there is no token %q: `slipway token list` shows them", args[0])
			case errors.Is(err, fs.ErrPermission):
				return fmt.Errorf("%w: run this as root on the daemon's host", err)
			case err != nil:
				return err
			}
			if a.output == "json" {
				return a.out.JSON(map[string]string{"revoked": args[0]})
			}
			return a.out.Println("revoked token " + args[0])
		},
	}
	addTokens(cmd.Flags(), &folder)
	return cmd
}
