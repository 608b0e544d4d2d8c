package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/slipway-gitops/slipway/engine/artifact"
	"github.com/slipway-gitops/slipway/engine/member"
	"github.com/slipway-gitops/slipway/engine/record"
	"github.com/slipway-gitops/slipway/engine/say"
	"github.com/slipway-gitops/slipway/engine/site"
)

// memberFlags are those of the commands below member.
type memberFlags struct {
	state, join, folder string
	witness             bool
	restore             string
	replace             bool
}

func (a *app) memberCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "member", Short: "have several hosts keep the records of a site", Args: knownCommand,
		Long: "Daemons started with --join keep the records together, in an etcd that they form\n" +
			"themselves: three daemons, or two and a witness. The loss of one stops nothing. These\n" +
			"commands work on a member's host, as root or the daemon's user; see docs/members.md.\n" + exitHelp,
		Example: "  slipway member init 10.0.0.1:2380\n  slipway member add 10.0.0.2:2380 --folder ./second\n  slipway member list",
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.memberInitCommand(), a.memberListCommand(), a.memberAddCommand(), a.memberRemoveCommand(), a.memberReplaceCommand())
	return cmd
}

func (f *memberFlags) addJoin(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.join, "join", memberFolder, "the `FOLDER` of this host's member")
}

func (a *app) memberInitCommand() *cobra.Command {
	var f memberFlags
	cmd := &cobra.Command{
		Use: "init IP:PORT", Short: "make this host the first member", Args: exactly(1),
		Long: "Makes the folder of this host's member with a new certificate authority, and begins an\n" +
			"etcd of one member that listens at IP:PORT. The records of a single host become those\n" +
			"of the member; a copy of them stays in the state directory. The daemon must not run.\n" +
			"Then start it with --join, and add two more members.\n\n" +
			"With --restore the records come from an export, as after the loss of most members.\n" +
			"Approvals end then, and the site is paused. It is refused while another member that is\n" +
			"known runs. Records that are replaced are kept beside the new ones.\n" + exitHelp,
		Example: "  slipway member init 10.0.0.1:2380\n  slipway member init 10.0.0.1:2380 --restore backup.jsonl --replace",
		RunE:    func(cmd *cobra.Command, args []string) error { return a.initMember(cmd.Context(), f, args[0]) },
	}
	cmd.Flags().StringVar(&f.restore, "restore", "", "begin with the records of an export, a `FILE` of `slipway state export`")
	cmd.Flags().BoolVar(&f.replace, "replace", false, "with --restore, replace the records that are there")
	f.addJoin(cmd)
	addState(cmd, &f.state)
	return cmd
}

// firstMember is what `member init` prints as JSON.
type firstMember struct {
	Address string   `json:"address"`
	Folder  string   `json:"folder"`
	Records int      `json:"records"`
	Sites   []string `json:"sites"`
	Copy    string   `json:"copy,omitempty"` // of the records of a single host
	Kept    string   `json:"kept,omitempty"` // where the records that were replaced are
}

func (a *app) initMember(ctx context.Context, f memberFlags, address string) error {
	if f.replace && f.restore == "" {
		return usage("--replace needs --restore")
	}
	if err := checkUser(f.state); err != nil {
		return err
	}
	from := record.Source{Older: f.restore != "", Replace: f.replace}
	file, kept := f.restore, ""
	_, err := os.Stat(filepath.Join(recordsIn(f.state), "etcd"))
	if single := err == nil; single && f.restore == "" {
		file = filepath.Join(f.state, "before-member-init.jsonl")
		if err := a.backUp(ctx, f.state, file); err != nil {
			return err
		}
		from.Replace, kept = true, file
	}
	if file != "" {
		export, err := os.Open(file)
		if err != nil {
			return err
		}
		defer export.Close()
		if from.Site, err = onlySite(export, file); err != nil {
			return err
		}
		from.Export = export
	}
	folder, err := firstFolder(f.join, address)
	if err != nil {
		return err
	}
	done, err := record.Found(ctx, recordsIn(f.state), record.Cluster{Prefix: etcdPrefix, Peer: folder.Peer()}, from, record.Options{})
	if err != nil {
		return err
	}
	if a.output == "json" {
		return a.out.JSON(firstMember{address, f.join, done.Records, append([]string{}, done.Sites...), kept, done.Kept})
	}
	if done.Records > 0 {
		a.out.Printf("moved %s of %s to the member\n", say.Count(done.Records, "record"), nameSites(done.Sites))
	}
	if kept != "" {
		a.out.Printf("a copy from before is %s\n", kept)
	}
	if done.Kept != "" {
		a.out.Printf("the records from before are kept in %s: delete them once the site runs\n", done.Kept)
	}
	return a.out.Printf("%s is the first member: start the daemon with --join %s, then run `slipway member add` for two more\n", address, f.join)
}

// checkUser refuses root where a daemon of another user has the state directory: it could not read what
// root writes.
func checkUser(state string) error {
	at, err := os.Stat(state)
	if err != nil || os.Geteuid() != 0 {
		return nil // absent: it will be this user's
	}
	if owner, is := at.Sys().(*syscall.Stat_t); is && owner.Uid != 0 {
		return fmt.Errorf("the state directory %s is of user id %d, which could not read what root writes: run the command as this user, such as `runuser -u slipway -- slipway member init`", state, owner.Uid)
	}
	return nil
}

// backUp copies the records of a state directory into a file.
func (a *app) backUp(ctx context.Context, state, file string) error {
	_, err := saveState(ctx, exportFrom, state, file)
	return err
}

// onlySite returns the site of an export, and goes back to its beginning.
func onlySite(export io.ReadSeeker, file string) (string, error) {
	sum, err := record.Verify(export)
	if err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	if len(sum.Sites) != 1 {
		return "", fmt.Errorf("%s has the records of %s: members keep those of one site", file, nameSites(sum.Sites))
	}
	_, err = export.Seek(0, io.SeekStart)
	return sum.Sites[0], err
}

// firstFolder makes the folder of the first member, or takes one that is there for the same address.
func firstFolder(dir, address string) (member.Folder, error) {
	folder, err := member.Open(dir)
	switch {
	case errors.Is(err, member.ErrNone):
		return member.Found(dir, address)
	case err != nil:
		return folder, err
	case folder.Address != address || folder.Witness:
		return folder, fmt.Errorf("the folder %s is of the member %s: name another folder with --join, or move it away", dir, folder.Address)
	}
	return folder, nil
}

func (a *app) memberListCommand() *cobra.Command {
	var f memberFlags
	cmd := &cobra.Command{
		Use: "list", Short: "show the members, and how many may be lost", Args: exactly(0),
		Long: "Shows the members as this one knows them, and whether each answers it. It needs no\n" +
			"majority of them. On a daemon's host it also says how many artifacts each daemon has.\n" + exitHelp,
		Example: "  slipway member list",
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := member.NewClient(f.state).List(cmd.Context())
			if err != nil {
				return err
			}
			if err := a.printMembers(all); err != nil || a.output == "json" {
				return err
			}
			return a.printHeld(cmd.Context(), f.state, all)
		},
	}
	addState(cmd, &f.state)
	return cmd
}

// printHeld says how many of the site's artifacts each daemon has, where this host runs one that knows.
func (a *app) printHeld(ctx context.Context, state string, all []record.Member) error {
	daemon := daemonAt(state)
	defer daemon.Close()
	l, err := daemon.Artifacts().Listing(ctx)
	if err != nil {
		return nil // a witness, or a daemon that starts: the list of members was asked for
	}
	has, kept := held(l)
	if kept == 0 {
		return nil
	}
	var each []string
	for _, m := range all {
		if !m.Witness {
			each = append(each, fmt.Sprintf("%d on %s", has[m.Address], site.Printable(m.Address)))
		}
	}
	return a.out.Printf("of %s, %s are whole; see `slipway artifact list`\n", say.Count(kept, "artifact"), strings.Join(each, " and "))
}

// held counts the artifacts that all daemons are to have, and those that each of them has.
func held(l artifact.Listing) (has map[string]int, kept int) {
	has = map[string]int{}
	count := func(c *artifact.Copies) {
		if c == nil || !c.Kept {
			return
		}
		kept++
		for _, name := range c.On {
			has[name]++
		}
	}
	for _, e := range l.Files {
		count(e.Copies)
	}
	for _, s := range l.Wanted {
		count(s.Copies)
	}
	return has, kept
}

func (a *app) printMembers(all []record.Member) error {
	if a.output == "json" {
		return a.out.JSON(all)
	}
	t := newTable("member", "is", "votes", "state")
	for _, m := range all {
		is, votes := "daemon", "no"
		if m.Witness {
			is = "witness"
		}
		if m.Votes {
			votes = "yes"
		}
		t.AppendRow(table.Row{site.Printable(m.Address), is, votes, memberState(m)})
	}
	if err := a.out.Println(t.Render()); err != nil {
		return err
	}
	return a.out.Println(membersVerdict(all))
}

// memberState says how a member is.
func memberState(m record.Member) string {
	switch {
	case m.Here && m.Trouble != "":
		return "is this host's: " + site.Printable(m.Trouble)
	case m.Here:
		return "is this host's"
	case !m.Started:
		return "has not started yet"
	case m.Trouble != "":
		return "does not answer: " + site.Printable(m.Trouble)
	case m.Unknown:
		return "runs; whether it takes part is not known, because no majority does"
	}
	return "answers"
}

// membersVerdict says how many members answer, and how many may be lost.
func membersVerdict(all []record.Member) string {
	voters, answer, waiting, daemons, unknown := 0, 0, 0, 0, 0
	for _, m := range all {
		switch {
		case !m.Votes:
			waiting++
			continue
		case m.Unknown:
			unknown++
		case m.Trouble == "" && m.Started:
			answer++
			if !m.Witness {
				daemons++
			}
		}
		voters++
	}
	if need := voters/2 + 1; unknown > 0 && answer < need {
		return fmt.Sprintf("%d of %s answering, %d not known, and %d are needed: nothing is written to any machine or record until they take part; start those that do not run, and see to the disks and the network of those that do",
			answer, say.Count(voters, "member"), unknown, need)
	}
	return majority(voters, answer, waiting) + onlyDaemon(daemons, answer)
}

// onlyDaemon says that the loss of one more daemon stops the site, however many members there are.
func onlyDaemon(daemons, answer int) string {
	if daemons != 1 || answer < record.MinVoters {
		return ""
	}
	return ", but not the only daemon: add a second daemon, then remove a witness"
}

// majority says what the loss of members means, where others wait to vote.
func majority(voters, answer, waiting int) string {
	need := voters/2 + 1
	add := fmt.Sprintf("run `slipway member add` until %d vote", record.MinVoters)
	if voters+waiting >= record.MinVoters {
		add = "the others vote once they have started and caught up"
	}
	switch spare := answer - need; {
	case spare < 0:
		return fmt.Sprintf("%d of %s answering, and %d are needed: nothing is written to any machine or record until they do", answer, say.Count(voters, "member"), need)
	case spare == 0 && voters < record.MinVoters:
		return fmt.Sprintf("%d of %s answering: none may be lost; %s", answer, say.Count(voters, "member"), add)
	case spare == 0:
		return fmt.Sprintf("%d of %s answering: none more may be lost; start the others, or replace them", answer, say.Count(voters, "member"))
	default:
		return fmt.Sprintf("%d of %s answering: %d may be lost", answer, say.Count(voters, "member"), spare)
	}
}

func (a *app) memberAddCommand() *cobra.Command {
	var f memberFlags
	cmd := &cobra.Command{
		Use: "add IP:PORT --folder DIR", Short: "add a member, and make its folder", Args: exactly(1),
		Long: "Backs up the records, adds a member, and makes the folder by which its host is one. Carry\n" +
			"the folder there, and start the daemon with --join. The new member votes once it has\n" +
			"caught up and the number of members that vote stays odd: from one they become three,\n" +
			"never two, because of two the loss of either would stop both.\n" + exitHelp,
		Example: "  slipway member add 10.0.0.2:2380 --folder ./second\n  slipway member add 10.0.0.3:2380 --folder ./third --witness",
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.folder == "" {
				return usage("add needs --folder: say where the folder for the new member's host is to be made")
			}
			return a.changeMembers(cmd.Context(), f, member.Change{Act: member.Add, Address: args[0]})
		},
	}
	f.addChange(cmd)
	return cmd
}

func (f *memberFlags) addChange(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.folder, "folder", "", "where the folder for the new member's host is made: a new `FOLDER`")
	cmd.Flags().BoolVar(&f.witness, "witness", false, "the host runs `slipway witness`, and no daemon")
	f.addJoin(cmd)
	addState(cmd, &f.state)
}

func (a *app) memberRemoveCommand() *cobra.Command {
	var f memberFlags
	cmd := &cobra.Command{
		Use: "remove IP:PORT", Short: "remove a member", Args: exactly(1),
		Long: "Backs up the records and removes a member. It is refused when two members would be left.\n" +
			"The daemon of the removed member ends.\n" + exitHelp,
		Example: "  slipway member remove 10.0.0.2:2380",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.changeMembers(cmd.Context(), f, member.Change{Act: member.Remove, Address: args[0]})
		},
	}
	addState(cmd, &f.state)
	return cmd
}

func (a *app) memberReplaceCommand() *cobra.Command {
	var f memberFlags
	cmd := &cobra.Command{
		Use: "replace IP:PORT [NEW-IP:PORT]", Short: "replace a member that is lost, or has lost its disk", Args: between(1, 2),
		Long: "Backs up the records, removes a member and adds it again, or another one in its place. A\n" +
			"host that has lost its disk starts again with its folder, gets the records from the\n" +
			"others and votes once it has them. With --folder a new folder is made for its host, of a\n" +
			"witness where it replaces one.\n" + exitHelp,
		Example: "  slipway member replace 10.0.0.2:2380\n  slipway member replace 10.0.0.2:2380 10.0.0.4:2380 --folder ./fourth",
		RunE: func(cmd *cobra.Command, args []string) error {
			c := member.Change{Act: member.Replace, Address: args[0], By: args[len(args)-1]}
			if c.By != c.Address && f.folder == "" {
				return usage("replace needs --folder: say where the folder for the new member's host is to be made")
			}
			return a.changeMembers(cmd.Context(), f, c)
		},
	}
	f.addChange(cmd)
	return cmd
}

// between allows from least to most arguments.
func between(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return usage("%s takes %d to %d arguments, not %d: slipway %s", cmd.Name(), least, most, len(args), cmd.Use)
		}
		return nil
	}
}

// changed is what a change of members prints as JSON.
type changed struct {
	member.Change
	Folder string `json:"folder,omitempty"`
	Copy   string `json:"copy"` // of the records from before
}

// changeMembers backs the records up, which only the daemon that leads can, makes the folder of the
// new member, and changes the members.
func (a *app) changeMembers(ctx context.Context, f memberFlags, c member.Change) error {
	client := member.NewClient(f.state)
	all, err := client.List(ctx)
	if err != nil {
		return err
	}
	if f.witness, err = kind(c, f.witness, all); err != nil {
		return fmt.Errorf("nothing was changed: %w", err)
	}
	c.Witness = f.witness
	file := filepath.Join(f.state, "before-member-change.jsonl")
	if err := a.backUp(ctx, f.state, file); err != nil {
		return fmt.Errorf("nothing was changed: the records were not backed up: %w", err)
	}
	if f.folder != "" {
		if err := f.invite(c, all); err != nil {
			return fmt.Errorf("nothing was changed: %w", err)
		}
	}
	if err := client.Change(ctx, c); err != nil {
		return err
	}
	if a.output == "json" {
		return a.out.JSON(changed{c, f.folder, file})
	}
	a.out.Printf("a copy of the records from before is %s\n", file)
	switch {
	case c.Act == member.Remove:
		return a.out.Printf("removed %s\n", c.Address)
	case f.folder == "":
		return a.out.Printf("replaced %s: start its host with its folder and an empty state directory\n", c.Address)
	}
	command := "slipway run --join FOLDER"
	if f.witness {
		command = "slipway witness --join FOLDER"
	}
	return a.out.Printf("carry %s to the host of %s, and start `%s` there; the folder is secret\n", f.folder, newest(c), command)
}

// kind reports whether the member that a change adds is a witness.
func kind(c member.Change, asked bool, all []record.Member) (witness bool, err error) {
	if c.Act == member.Remove {
		return false, nil
	}
	return record.Kind(all, c.Address, asked)
}

// newest is the member that a change adds.
func newest(c member.Change) string {
	if c.By != "" {
		return c.By
	}
	return c.Address
}

// invite makes the folder of the member that a change adds, or takes the one that an earlier try made,
// and notes the members in the folder of this host.
func (f memberFlags) invite(c member.Change, all []record.Member) error {
	own, err := member.Open(f.join)
	if err != nil {
		return err
	}
	s := member.Settings{Address: newest(c), Witness: f.witness}
	others := []string{s.Address}
	for _, m := range all {
		if m.Address == c.Address || m.Address == s.Address {
			continue
		}
		s.Others = append(s.Others, m.Address)
		if m.Address != own.Address {
			others = append(others, m.Address)
		}
	}
	if err := own.Know(others); err != nil {
		return err
	}
	made, err := member.Open(f.folder)
	switch {
	case errors.Is(err, member.ErrNone):
		return own.Invite(f.folder, s)
	case errors.Is(err, fs.ErrPermission):
		return err
	case err != nil || made.Address != s.Address || made.Witness != s.Witness:
		return fmt.Errorf("%s is a member's folder already: name another one, or move it away", f.folder)
	}
	return nil
}
