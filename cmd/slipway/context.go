package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/slipway-gitops/slipway/engine/access"
	"github.com/slipway-gitops/slipway/engine/control"
)

func (a *app) contextCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "context", Short: "name daemons on other hosts", Args: knownCommand,
		Long: "A context is the name of a daemon on another host, with the certificate, login or token\n" +
			"that is shown there. Commands such as status and approve take it as --server. Contexts are in the\n" +
			"file ~/.config/slipway/contexts (SLIPWAY_CONTEXTS), which names keys and holds none.\n" + exitHelp,
		Example: "  slipway context add berlin --url https://slipway.example.org:8443 --ca ca.pem --cert ana.crt --key ana.key\n" +
			"  slipway status --server berlin\n  slipway context list",
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.addContextCommand(), a.listContextsCommand(), a.removeContextCommand())
	return cmd
}

func (a *app) addContextCommand() *cobra.Command {
	var c serverContext
	var l loginFlags
	var byLogin bool
	cmd := &cobra.Command{
		Use: "add NAME --url URL", Short: "name a daemon, and try to reach it", Args: exactly(1),
		Long: "Asks the daemon who it takes the caller for and what the caller may do there, and keeps\n" +
			"the context if it answers. A context of the same name is replaced. With --login you log in\n" +
			"at the issuer of OpenID Connect that the daemon names, as with `slipway login`.\n" + exitHelp,
		Example: "  slipway context add berlin --url https://slipway.example.org:8443 --ca ca.pem --cert ana.crt --key ana.key\n" +
			"  slipway context add ci --url https://slipway.example.org:8443 --ca ca.pem --token ci.token\n" +
			"  slipway context add berlin --url https://slipway.example.org:8443 --login",
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Name = args[0]
			if !access.IsTokenName(c.Name) {
				return usage("%q cannot be the name of a context: use lower case letters, digits and hyphens", c.Name)
			}
			if err := control.CheckURL(c.URL); err != nil {
				return usage("--url: %v", err)
			}
			if l.isSet() && !byLogin {
				return usage("--browser and --issuer-ca belong to --login")
			}
			if byLogin {
				if c.Cert+c.Key+c.Token != "" {
					return usage("--login is in place of --cert, --key and --token: pass one of them")
				}
				if err := c.absolute(); err != nil {
					return err
				}
				var err error
				if c.Login, err = a.logInByIssuer(cmd.Context(), c, l); err != nil {
					return err
				}
			}
			return a.addContext(cmd, c)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&c.URL, "url", "", "`URL` of the daemon: https://HOST:PORT")
	flags.StringVar(&c.CA, "ca", "", "PEM `FILE` with the authority of the daemon's certificate, instead of those of this host")
	flags.StringVar(&c.Cert, "cert", "", "PEM `FILE` with your certificate")
	flags.StringVar(&c.Key, "key", "", "PEM `FILE` with its key, which nobody else can read")
	flags.StringVar(&c.Token, "token", "", "`FILE` with the token of a program, which nobody else can read")
	flags.BoolVar(&byLogin, "login", false, "log in at the issuer of OpenID Connect that the daemon names")
	l.add(flags)
	return cmd
}

func (a *app) addContext(cmd *cobra.Command, c serverContext) error {
	if err := c.absolute(); err != nil {
		return err
	}
	s, err := c.open()
	if err != nil {
		return err
	}
	daemon, err := control.DialServer(s)
	if err != nil {
		return err
	}
	defer daemon.Close()
	is, err := daemon.WhoAmI(cmd.Context())
	if err != nil {
		return err
	}
	all, err := readContexts()
	if err != nil {
		return err
	}
	all = append(slices.DeleteFunc(all, func(x serverContext) bool { return x.Name == c.Name }), c)
	if err := writeContexts(all); err != nil {
		return err
	}
	if a.output == "json" {
		return a.out.JSON(is)
	}
	a.out.Printf("context %s: %s takes you for %s\n", c.Name, c.URL, is.Caller)
	for name, verbs := range is.Verbs {
		var words []string
		for _, v := range verbs {
			words = append(words, string(v))
		}
		a.out.Printf("site %s: you may %s\n", name, strings.Join(words, ", "))
	}
	if len(is.Verbs) == 0 {
		a.out.Println("you may do nothing there: ask for a line in the access file on its host")
	}
	return nil
}

// absolute makes the names of the files absolute.
func (c *serverContext) absolute() error {
	for _, file := range []*string{&c.CA, &c.Cert, &c.Key, &c.Token} {
		if *file == "" {
			continue
		}
		abs, err := filepath.Abs(*file)
		if err != nil {
			return err
		}
		*file = abs
	}
	return nil
}

func (a *app) listContextsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "list the contexts", Args: exactly(0),
		Long:    "Lists the names of daemons, and which files are shown there.\n" + exitHelp,
		Example: "  slipway context list",
		RunE: func(*cobra.Command, []string) error {
			all, err := readContexts()
			if err != nil {
				return err
			}
			if a.output == "json" {
				return a.out.JSON(append([]serverContext{}, all...))
			}
			if len(all) == 0 {
				return a.out.Println("there is no context")
			}
			t := newTable("context", "url", "shows")
			for _, c := range all {
				t.AppendRow(table.Row{c.Name, c.URL, c.Cert + c.Token + c.Login})
			}
			return a.out.Println(t.Render())
		},
	}
}

func (a *app) removeContextCommand() *cobra.Command {
	return &cobra.Command{
		Use: "remove NAME", Short: "forget a context", Args: exactly(1),
		Long:    "Forgets the name. The files that it names stay.\n" + exitHelp,
		Example: "  slipway context remove berlin",
		RunE: func(_ *cobra.Command, args []string) error {
			all, err := readContexts()
			if err != nil {
				return err
			}
			left := slices.DeleteFunc(slices.Clone(all), func(c serverContext) bool { return c.Name == args[0] })
			if len(left) == len(all) {
				return fmt.Errorf("there is no context %q: `slipway context list` shows those that there are", args[0])
			}
			if err := writeContexts(left); err != nil {
				return err
			}
			if a.output == "json" {
				return a.out.JSON(map[string]string{"removed": args[0]})
			}
			return a.out.Println("removed context " + args[0])
		},
	}
}
