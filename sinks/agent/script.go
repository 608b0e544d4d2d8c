package agent

import (
	"strconv"
	"strings"

	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// One of these lines is behind the report: before what the helper answers, and where
// the account is not root and may not become it.
const (
	helperLine = wire.Answers
	deniedLine = "--denied\n"
)

// What is printed where no helper answers.
const (
	saysAbsent = "absent" // and what uname(1) calls the machine
	saysOwned  = "owned"  // Slipway has made something there
	saysPushed = "pushed" // the helper is there now
	// saysMachine is before what uname(1) calls a machine; the digests of the helpers
	// that are there follow.
	saysMachine = "machine"
)

// asRoot runs a script as root, in which there is no single quote and no backslash.
func asRoot(script string) string {
	script = "echo; echo --helper; " + script
	return `R="` + inDouble(script) + `"; if [ "$(id -u)" = 0 ]; then sh -c "$R"; else sudo -n sh -c "$R" || { echo; echo --denied; }; fi`
}

// inDouble is a script between double quotes.
func inDouble(script string) string {
	return strings.NewReplacer(`"`, `\"`, `$`, `\$`, "`", "\\`").Replace(script)
}

// reportingScript has the helper that is there tell of the system as well, before it reads a
// request. It prints nothing and goes on where there is none, or the account is not root and
// may not become it.
func reportingScript(digests []string) string {
	start := startHelper(digests, "", " --report")
	return start + "if [ -d $D ] && [ ! -x $D ]; then sudo -n sh -c \"" + inDouble(start) + "exit 1\" 2>/dev/null && exit; fi; "
}

// helperScript starts the helper that is there, which reads a request.
func helperScript(digests []string) string {
	return startHelper(digests, "echo; echo --helper; ", "") + asRoot(startHelper(digests, "", "")+
		"echo "+saysAbsent+" $(uname -m); [ ! -e $D/owned.json ] || echo "+saysOwned)
}

// startHelper starts the helper that is there in the place of the shell, after some command and
// with some further argument. It goes on where there is none, and for accounts but root: they
// see none.
func startHelper(digests []string, before, argument string) string {
	return "D=" + inside.Folder + "; for H in " + strings.Join(digests, " ") + "; do [ ! -x $D/helper-$H ] || { " + before + "exec $D/helper-$H --digest $H" + argument + "; }; done; "
}

// pushScript takes a helper from its input. It is there whole and with the right
// digest or not at all; older ones are taken away, but not while one of them may have to set
// the network back.
func pushScript(digest string, size int) string {
	return asRoot("set -e; umask 077; D=" + inside.Folder + "; H=helper-" + digest + "; " +
		"[ -d $D ] || mkdir -p $D; T=$D/.$H.$$; trap \"rm -f $T\" EXIT; " +
		"head -c " + strconv.Itoa(size) + " > $T; " +
		"S=$(sha256sum < $T); [ \"${S%% *}\" = " + digest + " ] || { echo the digest of what arrived is ${S%% *} >&2; exit 1; }; " +
		"chmod 0700 $T; sync $T 2>/dev/null || sync; mv -f $T $D/$H; sync $D 2>/dev/null || sync; " +
		"[ -e $D/network-unconfirmed ] || for O in $D/helper-*; do [ $O = $D/$H ] || rm -f $O; done; echo " + saysPushed)
}

// lendScript takes a helper from its input into a new folder in memory, where only root
// can reach it: whoever may make files beside it cannot guess its name before.
func lendScript(folder, digest string, size int) string {
	return asRoot("set -e; umask 077; D=" + folder + "; H=helper-" + digest + "; mkdir $D; trap \"rm -rf $D\" EXIT; T=$D/$H; " +
		"head -c " + strconv.Itoa(size) + " > $T; " +
		"S=$(sha256sum < $T); [ \"${S%% *}\" = " + digest + " ] || { echo the digest of what arrived is ${S%% *} >&2; exit 1; }; " +
		"chmod 0700 $T; trap - EXIT; echo " + saysPushed)
}

// lentScript starts the helper that is lent, which reads a request. Its folder is gone
// before.
func lentScript(folder, digest string) string {
	return asRoot("exec 9< " + folder + "/helper-" + digest + "; rm -rf " + folder + "; exec /proc/self/fd/9 --digest " + digest)
}

// sumScript tells which helpers are there whole.
func sumScript(digests []string) string {
	return asRoot("D=" + inside.Folder + "; echo " + saysMachine + " $(uname -m); " +
		"for H in " + strings.Join(digests, " ") + "; do [ ! -e $D/helper-$H ] || sha256sum < $D/helper-$H; done")
}
