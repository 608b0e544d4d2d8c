package agent

import (
	"strconv"
	"strings"

	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// One of these lines follows the report. helperLine precedes the helper's answer. deniedLine means that the account
// is not root and may not use sudo.
const (
	helperLine = wire.Answers
	deniedLine = "--denied\n"
)

// These words are printed if no helper answers.
const (
	saysAbsent = "absent" // followed by the machine name of uname(1)
	saysOwned  = "owned"  // Slipway has made something there
	saysPushed = "pushed" // the helper is there now
	// saysMachine precedes the machine name of uname(1). The digests of the existing helpers follow.
	saysMachine = "machine"
)

// asRoot runs a script as root. The script must contain no single quote and no backslash.
func asRoot(script string) string {
	script = "echo; echo --helper; " + script
	return `R="` + inDouble(script) + `"; if [ "$(id -u)" = 0 ]; then sh -c "$R"; else sudo -n sh -c "$R" || { echo; echo --denied; }; fi`
}

// inDouble escapes a script for double quotes.
func inDouble(script string) string {
	return strings.NewReplacer(`"`, `\"`, `$`, `\$`, "`", "\\`").Replace(script)
}

// reportingScript asks an existing helper to report on the system before it reads a request. Without a helper, or
// without root access, the script prints nothing and continues.
func reportingScript(known []string) string {
	start := startHelper(known, "", " --report")
	return start + "if [ -d $D ] && [ ! -x $D ]; then sudo -n sh -c \"" + inDouble(start) + "exit 1\" 2>/dev/null && exit; fi; "
}

// helperScript starts an existing helper, which reads a request.
func helperScript(known []string) string {
	return startHelper(known, "echo; echo --helper; ", "") + asRoot(startHelper(known, "", "")+
		"echo "+saysAbsent+" $(uname -m); [ ! -e $D/owned.json ] || echo "+saysOwned)
}

// startHelper replaces the shell with an existing helper. It runs a command before and passes an extra argument.
// Without a helper the script continues. Accounts other than root cannot see the helper, so for them it continues
// too.
func startHelper(known []string, before, argument string) string {
	return "D=" + inside.Folder + "; for P in " + strings.Join(known, " ") + "; do H=$D/helper-${P%:*}; [ ! -x $H ] || { " + before + "exec $H --checksum ${P#*:}" + argument + "; }; done; "
}

// pushScript reads a helper from its input. It stores the helper complete and with the right digest, or not at all.
// It removes older helpers, except while one of them may have to revert the network.
func pushScript(digest string, size int) string {
	return asRoot("set -e; umask 077; D=" + inside.Folder + "; H=helper-" + digest + "; " +
		"[ -d $D ] || mkdir -p $D; T=$D/.$H.$$; trap \"rm -f $T\" EXIT; " +
		"head -c " + strconv.Itoa(size) + " > $T; " +
		"S=$(sha256sum < $T); [ \"${S%% *}\" = " + digest + " ] || { echo the digest of what arrived is ${S%% *} >&2; exit 1; }; " +
		"chmod 0700 $T; sync $T 2>/dev/null || sync; mv -f $T $D/$H; sync $D 2>/dev/null || sync; " +
		"[ -e $D/network-unconfirmed ] || for O in $D/helper-*; do [ $O = $D/$H ] || rm -f $O; done; echo " + saysPushed)
}

// lendScript reads a helper from its input into a new folder in memory that only root can access. Other users
// cannot guess the folder's name in advance.
func lendScript(folder, digest string, size int) string {
	return asRoot("set -e; umask 077; D=" + folder + "; H=helper-" + digest + "; mkdir $D; trap \"rm -rf $D\" EXIT; T=$D/$H; " +
		"head -c " + strconv.Itoa(size) + " > $T; " +
		"S=$(sha256sum < $T); [ \"${S%% *}\" = " + digest + " ] || { echo the digest of what arrived is ${S%% *} >&2; exit 1; }; " +
		"chmod 0700 $T; trap - EXIT; echo " + saysPushed)
}

// lentScript starts the lent helper, which reads a request. It removes the folder first.
func lentScript(folder, digest, checksum string) string {
	return asRoot("exec 9< " + folder + "/helper-" + digest + "; rm -rf " + folder + "; exec /proc/self/fd/9 --checksum " + checksum)
}

// sumScript prints the digests of the existing helpers.
func sumScript(known []string) string {
	return asRoot("D=" + inside.Folder + "; echo " + saysMachine + " $(uname -m); " +
		"for P in " + strings.Join(known, " ") + "; do H=$D/helper-${P%:*}; [ ! -e $H ] || sha256sum < $H; done")
}
