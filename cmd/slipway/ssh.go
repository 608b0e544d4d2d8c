package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	gossh "golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"github.com/slipway-gitops/slipway/engine/site"
)

type sshFlags struct {
	orderFlags
	account, key string
	life         time.Duration
	terminal     bool
	known        bool
}

func (a *app) sshCommand() *cobra.Command {
	var f sshFlags
	cmd := &cobra.Command{
		Use: "ssh NODE [-- COMMAND]", Short: "log in to a node by a short-lived certificate",
		Long: "Asks the daemon for a certificate that lets you log in to one account of one node for some\n" +
			"minutes, and runs ssh with it. The history of the node keeps who got it. The system has to\n" +
			"prove itself by the host keys that Slipway knows. The key pair is made for this login and\n" +
			"stays in the memory of this command; a session goes on after its certificate expires.\n\n" +
			"The design says which accounts certificates let in: system.ssh.accounts.\n\n" +
			"With --key it signs that public key instead and prints the certificate, for programs that\n" +
			"log in by themselves. With --known-hosts it prints the line for a known_hosts file by which\n" +
			"ssh knows the system by the certificates of its host keys, and logs in nowhere.\n" + exitHelp,
		Example: "  slipway ssh compute-5\n  slipway ssh compute-5 --account ops -- uptime\n  slipway ssh compute-5 --key id_ed25519.pub > id_ed25519-cert.pub\n  slipway ssh compute-5 --known-hosts >> ~/.ssh/known_hosts",
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return usage("ssh takes a node: slipway %s", cmd.Use)
			case len(args) > 1 && cmd.ArgsLenAtDash() != 1:
				return usage("write -- before the command that is to run on the node: slipway %s", cmd.Use)
			case f.known && (f.key != "" || len(args) > 1):
				return usage("--known-hosts prints a line for known_hosts and runs nothing, without --key")
			case f.key != "" && len(args) > 1:
				return usage("--key prints a certificate and runs nothing")
			case f.key == "" && !f.known && a.output == "json":
				return usage("--output json is for the certificate of a key: name the key with --key")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.known {
				return a.printKnownHosts(cmd.Context(), f, args[0])
			}
			if f.key != "" {
				return a.printCertificate(cmd.Context(), f, args[0])
			}
			return a.logIn(cmd.Context(), f, args[0], args[1:])
		},
	}
	cmd.Flags().StringVar(&f.account, "account", "", "the account (default: the first of the node's system.ssh.accounts)")
	cmd.Flags().DurationVar(&f.life, "ttl", 10*time.Minute, "how long the certificate is valid, at most 1h")
	cmd.Flags().StringVar(&f.key, "key", "", "sign the public key in `FILE`, and print the certificate")
	cmd.Flags().BoolVar(&f.known, "known-hosts", false, "print the line for known_hosts by which ssh knows the system")
	cmd.Flags().BoolVarP(&f.terminal, "tty", "t", false, "give the command a terminal")
	f.add(cmd)
	return cmd
}

// certify has the daemon sign a public key.
func (f sshFlags) certify(ctx context.Context, node, key string) (site.SSHGrant, error) {
	daemon := daemonAt(f.state)
	defer daemon.Close()
	g, err := daemon.CertifyLogin(ctx, f.site, site.SSHRequest{Node: node, Account: f.account, Key: key, Life: site.Duration(f.life)})
	if err != nil {
		return g, err
	}
	if f.account != "" && g.Account != f.account || g.Node != node {
		return g, fmt.Errorf("the daemon's answer is for %s on %s, and not for what was asked: nothing was done with it", g.Account, g.Node)
	}
	return checkGrant(g, key)
}

var (
	hostOfGrant    = regexp.MustCompile(`^[A-Za-z0-9_:][A-Za-z0-9._:%-]{0,252}$`)
	nodeOfGrant    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,252}$`)
	accountOfGrant = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,254}$`)
)

// checkGrant refuses an answer that is not a login of the key and nothing more: its parts become arguments
// and files of ssh, and its certificate may be put into a file.
func checkGrant(g site.SSHGrant, key string) (site.SSHGrant, error) {
	no := func(what string) (site.SSHGrant, error) {
		return site.SSHGrant{}, fmt.Errorf("the daemon's answer has %s: nothing was done with it; restart a daemon of another version, and do not trust one that somebody else runs", what)
	}
	own, _, _, _, err := gossh.ParseAuthorizedKey([]byte(key))
	if err != nil {
		return no("a certificate for a key that cannot be read")
	}
	public, _, options, rest, err := gossh.ParseAuthorizedKey([]byte(g.Certificate))
	signed, isCertificate := public.(*gossh.Certificate)
	switch {
	case err != nil || !isCertificate || len(options)+len(rest) > 0:
		return no("no certificate")
	case signed.CertType != gossh.UserCert || !bytes.Equal(signed.Key.Marshal(), own.Marshal()):
		return no("a certificate of another key")
	case !hostOfGrant.MatchString(g.Host) || g.Port < 1 || g.Port > 65535:
		return no("no address to log in at")
	case !accountOfGrant.MatchString(g.Account):
		return no("no account to log in to")
	case len(g.HostKeys)+len(g.HostAuthorities) == 0 || slices.ContainsFunc(g.HostKeys, func(line string) bool { return site.Printable(line) != line }):
		return no("no host keys that the system could prove itself by")
	case slices.ContainsFunc(g.HostAuthorities, func(line string) bool { return !isPublicKey(line) }):
		return no("no authority that can be read for the system's host keys")
	case len(g.HostAuthorities) > 0 && (len(g.RevokedHostKeys) == 0 || !nodeOfGrant.MatchString(g.Node)):
		return no("no list of the host certificates that do not count")
	}
	g.Certificate = strings.TrimSpace(string(gossh.MarshalAuthorizedKey(signed)))
	return g, nil
}

// isPublicKey says whether a text is one public key, without options or comment.
func isPublicKey(line string) bool {
	key, _, _, rest, err := gossh.ParseAuthorizedKey([]byte(line))
	return err == nil && len(rest) == 0 && strings.TrimSpace(string(gossh.MarshalAuthorizedKey(key))) == line
}

// printKnownHosts prints the line by which people's own ssh knows a system.
func (a *app) printKnownHosts(ctx context.Context, f sshFlags, node string) error {
	daemon := daemonAt(f.state)
	defer daemon.Close()
	d, err := daemon.Node(ctx, f.site, node)
	if err != nil {
		return err
	}
	id := d.Status.HostCertificates
	if id == nil {
		return fmt.Errorf("%s shows no certificate of this site for its host keys, or was not seen to: look at `slipway why %s`. Write the host authority that `slipway site ssh-authority` shows into site.ssh.hosts, and accounts into system.ssh.accounts of the node", node, node)
	}
	if slices.ContainsFunc(id.Names, func(name string) bool { return !hostOfGrant.MatchString(name) }) || slices.ContainsFunc(id.Authorities, func(line string) bool { return !isPublicKey(line) }) {
		return errors.New("the daemon's answer has names or keys that do not belong into known_hosts: nothing was printed")
	}
	if a.output == "json" {
		return a.out.JSON(id)
	}
	for _, authority := range id.Authorities {
		if err := a.out.Println(certAuthority + strings.Join(id.Names, ",") + " " + authority); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) printCertificate(ctx context.Context, f sshFlags, node string) error {
	text, err := os.ReadFile(f.key)
	if err != nil {
		return fmt.Errorf("read the public key: %w", err)
	}
	g, err := f.certify(ctx, node, strings.TrimSpace(string(text)))
	if err != nil {
		return err
	}
	if a.output == "json" {
		return a.out.JSON(g)
	}
	return a.out.Println(g.Certificate)
}

// remoteError is the exit code of ssh: that of the command on the node, or 255.
type remoteError int

func (e remoteError) Error() string { return fmt.Sprintf("ssh ended with exit code %d", int(e)) }

// logIn runs ssh with a key that is in the memory of this process alone: ssh asks for its
// signature on a socket, as it asks ssh-agent(1).
func (a *app) logIn(ctx context.Context, f sshFlags, node string, command []string) error {
	program, err := exec.LookPath("ssh")
	if err != nil {
		return fmt.Errorf("there is no ssh on this host: install it (openssh-client), or sign a key of another host with --key: %w", err)
	}
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	signer, err := gossh.NewSignerFromKey(private)
	if err != nil {
		return err
	}
	g, err := f.certify(ctx, node, strings.TrimSpace(string(gossh.MarshalAuthorizedKey(signer.PublicKey()))))
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "slipway-ssh-") // that only this user can open
	if err != nil {
		return fmt.Errorf("make a folder for this login: %w", err)
	}
	defer os.RemoveAll(folder)
	known, revoked := filepath.Join(folder, "known_hosts"), filepath.Join(folder, "revoked")
	err = errors.Join(os.WriteFile(known, []byte(knownHosts(g)), 0o600), os.WriteFile(revoked, g.RevokedHostKeys, 0o600))
	if err != nil {
		return fmt.Errorf("write the host keys: %w", err)
	}
	keeper, err := keepKey(folder, private, g.Certificate)
	if err != nil {
		return err
	}
	defer keeper.Close()
	return runSSH(ctx, program, sshArguments(g, keeper.Addr().String(), known, revoked, f.terminal, command))
}

// keepKey answers on a socket as ssh-agent(1) does, for one key and its certificate.
func keepKey(folder string, private ed25519.PrivateKey, certificate string) (net.Listener, error) {
	public, _, _, _, err := gossh.ParseAuthorizedKey([]byte(certificate))
	signed, ok := public.(*gossh.Certificate)
	if err != nil || !ok {
		return nil, errors.New("the daemon's answer has no certificate: it may be of another version; restart it")
	}
	ring := agent.NewKeyring()
	if err := ring.Add(agent.AddedKey{PrivateKey: &private, Certificate: signed}); err != nil {
		return nil, fmt.Errorf("keep the key: %w", err)
	}
	l, err := net.Listen("unix", filepath.Join(folder, "agent"))
	if err != nil {
		return nil, fmt.Errorf("keep the key: %w", err)
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_ = agent.ServeAgent(ring, c) // it ends with the other side
			}()
		}
	}()
	return l, nil
}

// certAuthority begins a line of known_hosts(5) with the key of who signs host keys.
const certAuthority = "@cert-authority "

// knownHosts are the host keys of a system, as known_hosts(5) has them. Where it may prove itself by a certificate
// of the site it is known by the node's name, which no other node's certificate has.
func knownHosts(g site.SSHGrant) string {
	host := g.Host
	switch {
	case len(g.HostAuthorities) > 0:
		host = g.Node
	case g.Port != 22:
		host = fmt.Sprintf("[%s]:%d", g.Host, g.Port)
	}
	var lines strings.Builder
	for _, line := range g.HostKeys {
		if key, signs := strings.CutPrefix(line, certAuthority); signs {
			lines.WriteString(certAuthority + host + " " + key + "\n")
		} else {
			lines.WriteString(host + " " + line + "\n")
		}
	}
	for _, key := range g.HostAuthorities {
		lines.WriteString(certAuthority + host + " " + key + "\n")
	}
	return lines.String()
}

// sshArguments log in by the certificate and by nothing else, and trust the host keys that
// Slipway knows and no others. The files of settings of ssh are not read.
func sshArguments(g site.SSHGrant, keeper, known, revoked string, terminal bool, command []string) []string {
	args := []string{"-F", "none", "-l", g.Account, "-p", strconv.Itoa(g.Port)}
	for _, option := range []string{
		"IdentityAgent=" + keeper, "IdentityFile=none", "PreferredAuthentications=publickey", "UserKnownHostsFile=" + known,
		"GlobalKnownHostsFile=none", "StrictHostKeyChecking=yes", "UpdateHostKeys=no", "ForwardAgent=no", "ConnectTimeout=20",
	} {
		args = append(args, "-o", option)
	}
	if len(g.HostAuthorities) > 0 {
		args = append(args, "-o", "HostKeyAlias="+g.Node, "-o", "RevokedHostKeys="+revoked)
	}
	if terminal {
		args = append(args, "-t")
	}
	return append(append(args, "--", g.Host), command...)
}

// runSSH waits for ssh, which an interrupt of the terminal reaches by itself.
func runSSH(ctx context.Context, program string, args []string) error {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	err := cmd.Run()
	var ended *exec.ExitError
	if errors.As(err, &ended) && ended.ExitCode() > 0 {
		return remoteError(ended.ExitCode())
	}
	if err != nil {
		return fmt.Errorf("ssh: %w", err)
	}
	return nil
}
