package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/spf13/pflag"

	"github.com/slipway-gitops/slipway/engine/hostfile"
)

// siteFolder is where the host says what is different for a single site of several.
const siteFolder = "/etc/slipway/sites"

// mostSiteFile is how many bytes the file of a site has at most.
const mostSiteFile = 64 << 10

// Flags of `slipway run` where a host keeps several sites. All others are passed to the process of each site, and its file
// may have them too.
var (
	// hostFlags are for what all sites of a host share: which sites, where they are reached, and where they are from.
	hostFlags = []string{
		"site", "all-sites", "site-files", "state", "socket-group", "behind", "output", "help", "repo", "branch", "dir", "allow-rewrite",
		"listen", "listen-everywhere", "api", "web", "api-cert", "api-key", "api-clients", "api-access", "tokens",
	}
	// passedFlags are those of them that the process of a site is given as well.
	passedFlags = []string{"repo", "branch", "dir", "allow-rewrite", "api-access", "output"}
	// ownFlags are for something that only one site can have, such as an address of the host.
	ownFlags = []string{
		"artifact-listen", "artifact-url", "agent-listen", "agent-address", "ramdisk", "netboot", "site-key", "tls-intermediate",
		"webhook-listen", "webhook-cert", "webhook-key", "webhook-credential",
	}
	// sharedRecords are for several daemons of one site.
	sharedRecords = []string{"etcd", "etcd-ca", "etcd-cert", "etcd-key", "etcd-prefix", "join", "copy-listen"}
)

// fromEnvironment are those of ownFlags that the environment sets too.
var fromEnvironment = []string{"netboot", "site-key", "tls-intermediate"}

// passed are the flags of a command line that the process of each site is given. What cannot be for several sites is refused.
func passed(flags *pflag.FlagSet, folder string) (args []string, err error) {
	flags.VisitAll(func(f *pflag.Flag) {
		given := f.Changed || slices.Contains(fromEnvironment, f.Name) && f.Value.String() != ""
		switch {
		case !given || err != nil:
		case slices.Contains(sharedRecords, f.Name):
			err = usage("--%s is for several daemons of one site, and a daemon of several sites keeps their records on its own host: run a daemon for each site, or leave it out", f.Name)
		case f.Name == "artifact-listen" && f.Value.String() == noListener: // as it is without the flag
		case slices.Contains(ownFlags, f.Name):
			err = usage("--%s is for one site: for each site that needs it, write the line \"%s: …\" into %s", f.Name, f.Name, filepath.Join(folder, "SITE.conf"))
		case !slices.Contains(hostFlags, f.Name) || slices.Contains(passedFlags, f.Name):
			args = append(args, "--"+f.Name+"="+f.Value.String())
		}
	})
	return args, err
}

// siteFile reads what the host says of one site: lines "flag: value" with flags of `slipway run`.
func siteFile(flags *pflag.FlagSet, folder, name string) (args []string, err error) {
	path := filepath.Join(folder, name+".conf")
	text, err := hostfile.Read(path, 0, mostSiteFile, "what runs here")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	err = hostfile.EachSetting(text, "the name of a flag", func(key, value string, _ int) (bool, error) {
		if flags.Lookup(key) == nil || slices.Contains(hostFlags, key) || slices.Contains(sharedRecords, key) {
			return true, fmt.Errorf("%q is not a flag that a site can have for itself: see `slipway run --help`", key)
		}
		args = append(args, "--"+key+"="+value)
		return true, nil
	})
	if err != nil {
		return nil, fmt.Errorf("%s:%w", path, err)
	}
	return args, nil
}
