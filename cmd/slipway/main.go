// Command slipway manage bare-metal sites from Git.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/slipway-gitops/slipway/engine/artifact"
	"github.com/slipway-gitops/slipway/engine/control"
	"github.com/slipway-gitops/slipway/engine/design"
	"github.com/slipway-gitops/slipway/engine/member"
	"github.com/slipway-gitops/slipway/engine/say"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(execute(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// The exit codes; docs/cli.md has the same table.
const (
	exitOK          = 0
	exitError       = 1   // something went wrong
	exitChanges     = 2   // plan and diff --detailed-exitcode, allocate, fmt and migrate --check: there is something to do, or different
	exitFindings    = 3   // the design is broken
	exitNoDaemon    = 4   // no daemon answers
	exitUnknown     = 5   // plan --detailed-exitcode: nothing to do on the machines that were seen, and some were not; adopt --inside: some were not seen; verify: nothing is wrong, and something is unknown; sites, and status of several sites: the state of one is not known, or is of long ago
	exitUsage       = 64  // the command line makes no sense
	exitInterrupted = 130 // ended by an interrupt
)

const exitHelp = `
Exit codes: 0 done; 1 error; 2 there are changes (plan and diff with
--detailed-exitcode, allocate, fmt and migrate with --check); 3 the design
has errors; 4 no daemon answers; 5 no changes on the machines that were seen,
and some were not seen (plan with --detailed-exitcode, adopt with --inside,
verify, sites, status of several sites);
64 wrong usage; 130 interrupted.`

// Errors that only choose the exit code: what there is to say has been said.
var (
	errChanges  = errors.New("there are changes")
	errUnknown  = errors.New("some machines were not seen")
	errFindings = errors.New("the design has errors")
	errUsage    = errors.New("wrong usage")
)

// execute runs one command line and gives its exit code.
func execute(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	a := &app{out: &screen{stdout}, err: &screen{stderr}}
	cmd := a.command()
	cmd.SetArgs(args)
	cmd.SetOut(a.out.Lines())
	cmd.SetErr(a.err.Lines())
	err := cmd.ExecuteContext(ctx)
	code := exitCode(ctx, err)
	a.warnOfCredentials()
	if err != nil && !errors.Is(err, errChanges) && !errors.Is(err, errUnknown) && !errors.Is(err, errFindings) && !errors.As(err, new(remoteError)) {
		a.err.Fail(err)
	}
	return code
}

// exitCode is the one place where errors become exit codes.
func exitCode(ctx context.Context, err error) int {
	var remote remoteError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &remote):
		return int(remote) // that of ssh, which has said why
	case errors.Is(err, errUnknown):
		return exitUnknown
	case errors.Is(err, errChanges):
		return exitChanges
	case errors.Is(err, errFindings):
		return exitFindings
	case errors.Is(err, control.ErrNoDaemon), errors.Is(err, control.ErrUnreachable), errors.Is(err, member.ErrNoProcess):
		return exitNoDaemon
	case errors.Is(err, errUsage):
		return exitUsage
	case ctx.Err() != nil:
		return exitInterrupted
	}
	return exitError
}

// app is what every command shares.
type app struct {
	out, err *screen
	output   string        // text or json, or what the command writes
	secrets  *secret.Store // that a command has opened, nil for none
	designed *site.Site    // whose encrypted secrets a command may use, nil for none
}

func (a *app) command() *cobra.Command {
	root := &cobra.Command{
		Use:   "slipway",
		Short: "manage bare-metal sites from Git",
		Long: "Slipway keeps servers in the state described in Git. It follows a repository of CUE site\n" +
			"designs, compares them with what it sees of the machines, and changes the machines until\n" +
			"they match. It erases nothing without the approval of a person.\n" + exitHelp,
		Example: "  slipway check site-example\n" +
			"  slipway plan site-example\n" +
			"  slipway run --repo /srv/site.git --branch main --state /var/lib/slipway --credentials /etc/slipway/credentials",
		SilenceUsage: true, SilenceErrors: true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
		Args:              knownCommand,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return cmp.Or(checkPlace(cmd), a.settleOutput(cmd)) },
	}
	root.PersistentFlags().StringVarP(&a.output, "output", "o", "text", "text or json; check also sarif or github; plan also markdown; rollout also svg; render also cue (its text) or yaml")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage("%v", err) })
	root.AddCommand(a.adoptCommand(), a.allocateCommand(), a.artifactCommand(), a.bmcCommand(), a.certificateCommand(), a.checkCommand(), a.commitsCommand(), a.diffCommand(), a.discoverCommand(), a.explainCommand(), a.fmtCommand(), a.imageCommand(), a.initCommand(), a.loginCommand(), a.logoutCommand(), a.memberCommand(), a.migrateCommand(), a.planCommand(), a.proposalsCommand(), a.racksCommand(), a.ramdiskCommand(), a.renderCommand(), a.rolloutCommand(), a.reportCommand(), a.rulesCommand(), a.runCommand(), a.schemaCommand(), a.secretCommand(), a.siteCommand(), a.sitesCommand(), a.sshCommand(), a.stateCommand(), a.statusCommand(), a.webCommand(), a.whyCommand(), a.witnessCommand(),
		a.approveCommand(), a.disapproveCommand(), a.takeOverCommand(), a.pauseCommand(), a.resumeCommand(), a.quarantineCommand(), a.releaseCommand(), a.compromiseCommand(), a.incidentCommand(), a.grantCommand(), a.retryCommand(),
		a.historyCommand(), a.eventsCommand(), a.auditCommand(), a.tokenCommand(), a.contextCommand(), a.inventoryCommand(), a.eraseReportCommand(), a.logsCommand(), a.verifyCommand(), a.versionCommand(), evaluateCommand(), frameImageCommand(), manualCommand(root))
	completeNodes(root)
	return root
}

// outputs is the annotation of a command that writes other formats than text
// and JSON; the first is its text.
const outputs = "outputs"

// settleOutput refuses a format that a command does not write.
func (a *app) settleOutput(cmd *cobra.Command) error {
	formats := []string{"text", "json"}
	if own, ok := cmd.Annotations[outputs]; ok {
		formats = strings.Fields(own)
		if a.output == "text" {
			a.output = formats[0]
		}
	}
	if last := len(formats) - 1; !slices.Contains(formats, a.output) {
		return usage("--output is %s or %s, not %q", strings.Join(formats[:last], ", "), formats[last], a.output)
	}
	return nil
}

func usage(format string, args ...any) error {
	return fmt.Errorf("%w: "+format+" (see slipway help)", append([]any{errUsage}, args...)...)
}

// knownCommand refuses what is no command, with the nearest ones.
func knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		return usage("there is no command %q; did you mean %s?", args[0], strings.Join(near, " or "))
	}
	return usage("there is no command %q", args[0])
}

// atMost allows up to n arguments.
func atMost(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > n {
			return usage("%s takes at most %s, not %d: slipway %s", cmd.Name(), say.Count(n, "argument"), len(args), cmd.Use)
		}
		return nil
	}
}

// exactly asks for n arguments.
func exactly(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			return usage("%s takes %s, not %d: slipway %s", cmd.Name(), say.Count(n, "argument"), len(args), cmd.Use)
		}
		return nil
	}
}

// evaluateCommand is the worker process in which designs are evaluated.
func evaluateCommand() *cobra.Command {
	return &cobra.Command{Use: "evaluate", Hidden: true, Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error {
		return design.Work(os.Stdin, os.Stdout)
	}}
}

// frameImage is the name of the command that puts the image of a disk into frames.
const frameImage = "frame-image"

// frameImageCommand is the worker process in which images of disks are read.
func frameImageCommand() *cobra.Command {
	return &cobra.Command{Use: frameImage + " FORM", Hidden: true, Args: cobra.ExactArgs(1), Run: func(_ *cobra.Command, args []string) {
		os.Exit(artifact.FrameImage(args[0], os.Stdin, os.Stdout, os.Stderr))
	}}
}
