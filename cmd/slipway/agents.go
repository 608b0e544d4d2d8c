package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"

	"github.com/slipway-gitops/slipway/engine/artifact"
	"github.com/slipway-gitops/slipway/sinks/agent"
	"github.com/slipway-gitops/slipway/sinks/agent/ramdisk"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// agentFlags say how agents are started in the memory of machines, and listened to. As those of
// artifactFlags they are never in the design.
type agentFlags struct {
	medium, listen, address string
}

// startsFrom is the image in the medium, as a file that machines start over the network, which is
// written anew at each start; or why there is none.
func (f *agentFlags) startsFrom(state string) (file string, none error) {
	medium, err := os.Open(f.medium)
	if err != nil {
		return "", fmt.Errorf("--ramdisk: %w", err)
	}
	defer medium.Close()
	at, size, err := wire.ImageOf(medium)
	if err != nil {
		return "", fmt.Errorf("no machine can start the ramdisk %s over the network: %w", f.medium, err)
	}
	image, err := io.ReadAll(io.NewSectionReader(medium, at, size))
	if err == nil && int64(len(image)) != size {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return "", fmt.Errorf("read the image of the ramdisk %s: %w", f.medium, err)
	}
	file = filepath.Join(state, "agents", "ramdisk.efi")
	return file, replaceFile(file, image, 0o600)
}

func (f *agentFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.medium, "ramdisk", "", "ISO `FILE` of \"slipway ramdisk build\"; with it, machines are installed from root file systems by Slipway's agent")
	flags.StringVar(&f.listen, "agent-listen", ":9481", "listen to agents at `ADDRESS`, HOST:PORT or :PORT, with --ramdisk")
	flags.StringVar(&f.address, "agent-address", "", "`HOST:PORT` at which machines reach --agent-listen, where that is not the address of this host")
}

// check finds what makes no sense together.
func (f *agentFlags) check(observe bool, a artifactFlags) error {
	if _, _, err := net.SplitHostPort(f.listen); err != nil {
		return usage("--agent-listen %q is not HOST:PORT or :PORT", f.listen)
	}
	if host, port, err := net.SplitHostPort(f.address); f.address != "" && (err != nil || host == "" || port == "") {
		return usage("--agent-address %q is not HOST:PORT", f.address)
	}
	switch {
	case f.medium == "":
		return nil
	case observe:
		return usage("--ramdisk installs machines, and --observe writes to none: remove one of them")
	case a.listen == noListener:
		return usage("--ramdisk needs the artifact server, from which machines read the medium and the image: remove --artifact-listen off")
	}
	return nil
}

// open puts the medium into the artifact store, which keeps what machines read as it was at
// the start, and makes the service that listens to agents; nil without --ramdisk.
func (f *agentFlags) open(ctx context.Context, site, state string, files *artifact.Service, problem func(error), log *slog.Logger) (*agent.Service, error) {
	if f.medium == "" || files == nil {
		return nil, nil
	}
	medium, err := os.Open(f.medium)
	if err != nil {
		return nil, fmt.Errorf("--ramdisk: %w", err)
	}
	defer medium.Close()
	if _, _, err := wire.WordsOf(medium); err != nil {
		return nil, fmt.Errorf("--ramdisk: %s: %w; make one with `slipway ramdisk build`", f.medium, err)
	}
	digest, err := keepMedium(ctx, medium, files)
	if err != nil {
		return nil, fmt.Errorf("--ramdisk: put %s into the artifact store: %w", f.medium, err)
	}
	authority, err := agent.LoadAuthority(filepath.Join(state, "agents", "authority.pem"))
	if err != nil {
		return nil, err
	}
	return agent.NewService(agent.ServiceOptions{
		Site: site, Listen: f.listen, Address: f.address, Authority: authority, Medium: digest, On: ramdisk.ForBoot, Problem: problem, Log: log,
	}), nil
}

// keepMedium puts a medium into the artifact store, unless it is there, and gives its digest.
func keepMedium(ctx context.Context, medium *os.File, files *artifact.Service) (string, error) {
	hash := sha256.New()
	size, err := io.Copy(hash, medium)
	if err != nil {
		return "", err
	}
	digest := hex.EncodeToString(hash.Sum(nil))
	if _, ok := files.Get(digest); ok { // no room has to be made for it then
		return digest, nil
	}
	if _, err := medium.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	_, err = files.AddFile(ctx, medium, size, digest, filepath.Base(medium.Name()), func(int64) {})
	return digest, err
}
