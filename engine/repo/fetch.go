package repo

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"
)

// Fetch brings a branch's newest commit and its files into a store, and returns
// the commit's id.
//
// Without a base it fetches only that commit (depth 1). With a base, the commit
// of an earlier fetch, it fetches every commit since. That is enough to detect
// whether the branch was rewritten (Store.Descends), and keeps a normal fetch
// as small as the change. Only after a rewrite, or when the store has lost the
// base, does it transfer the branch's whole history, once.
func (r Remote) Fetch(ctx context.Context, into *Store, branch, base string) (string, error) {
	return r.fetch(ctx, into, heads+branch, "branch "+plain(branch), func(adv *packp.AdvRefs, head plumbing.Hash) *packp.UploadPackRequest {
		return request(adv, into, head, base)
	})
}

// FetchOne brings the commit of a reference, such as "refs/slipway/alive/berlin", and its files into a store, without what was
// before it, and returns the commit's id. ErrNoBranch is returned when the reference does not exist.
func (r Remote) FetchOne(ctx context.Context, into *Store, ref string) (string, error) {
	return r.fetch(ctx, into, ref, "reference "+plain(ref), func(adv *packp.AdvRefs, head plumbing.Hash) *packp.UploadPackRequest {
		return request(adv, into, head, "")
	})
}

// FetchWhole brings the commit of a reference, such as "refs/pull/7/head", with
// its whole history beyond the commits that the store has, and returns its id.
// A store filled only by FetchWhole has complete histories, as Merge needs.
// ErrNoBranch is returned when the reference does not exist.
func (r Remote) FetchWhole(ctx context.Context, into *Store, ref string, have ...string) (string, error) {
	return r.fetch(ctx, into, ref, "reference "+plain(ref), func(adv *packp.AdvRefs, head plumbing.Hash) *packp.UploadPackRequest {
		if into.Has(head.String()) {
			return nil
		}
		req := wanting(adv, head)
		for _, id := range have {
			if into.Has(id) {
				req.Haves = append(req.Haves, plumbing.NewHash(id))
			}
		}
		return req
	})
}

// fetch brings a reference's commit with the request that ask returns, or
// nothing if that is nil. name names the reference in errors.
func (r Remote) fetch(ctx context.Context, into *Store, ref, name string, ask func(adv *packp.AdvRefs, head plumbing.Hash) *packp.UploadPackRequest) (string, error) {
	var head plumbing.Hash
	err := r.do(ctx, fetching, transferTimeout, func(s *session) error {
		out := bufio.NewReader(s.out)
		adv, err := advertised(io.LimitReader(out, maxListing))
		if err != nil {
			return err
		}
		var ok bool
		if head, ok = adv.References[ref]; !ok {
			return fmt.Errorf("%s: %w", name, ErrNoBranch)
		}
		req := ask(adv, head)
		if req == nil {
			_, err = s.in.Write(pktline.FlushPkt)
			return err
		}
		return into.receive(s.in, out, req)
	})
	if err != nil {
		return "", err
	}
	if _, err := into.commit(head); err != nil {
		return "", fmt.Errorf("%s: the server sent no commit %s: %w", r, head, err)
	}
	return head.String(), nil
}

// wanting returns a request for a commit.
func wanting(adv *packp.AdvRefs, want plumbing.Hash) *packp.UploadPackRequest {
	req := packp.NewUploadPackRequest()
	req.Wants = []plumbing.Hash{want}
	for _, c := range []capability.Capability{capability.Sideband64k, capability.OFSDelta, capability.NoProgress} {
		if adv.Capabilities.Supports(c) {
			_ = req.Capabilities.Set(c) // fails only for capabilities with arguments
		}
	}
	return req
}

// request returns a request for one commit that the store lacks.
func request(adv *packp.AdvRefs, store *Store, want plumbing.Hash, base string) *packp.UploadPackRequest {
	req := wanting(adv, want)
	shallow := store.shallow()
	if base == "" {
		req.Depth = packp.DepthCommits(1)
	}
	if base == "" || len(shallow) > 0 {
		_ = req.Capabilities.Set(capability.Shallow)
	}
	if store.Has(base) {
		req.Shallows = shallow
		req.Haves = []plumbing.Hash{plumbing.NewHash(base)}
	}
	return req
}

// receive sends a request and stores what comes back.
func (s *Store) receive(in io.WriteCloser, out io.Reader, req *packp.UploadPackRequest) error {
	if err := req.UploadRequest.Encode(in); err != nil {
		return err
	}
	if err := req.UploadHaves.Encode(in, false); err != nil {
		return err
	}
	if _, err := io.WriteString(in, "0009done\n"); err != nil {
		return err
	}
	answer := packp.NewUploadPackResponse(req)
	if err := answer.Decode(io.NopCloser(out)); err != nil {
		return err
	}
	var pack io.Reader = answer
	if req.Capabilities.Supports(capability.Sideband64k) {
		pack = sideband.NewDemuxer(sideband.Sideband64k, answer)
	}
	return s.store(pack, answer.Shallows)
}

// store keeps a pack of objects after checking its limits. The pack passes
// through an unnamed temporary file, so nothing of it is in memory before the
// check.
func (s *Store) store(pack io.Reader, shallow []plumbing.Hash) error {
	f, err := os.CreateTemp(s.dir, "incoming-")
	if err != nil {
		return err
	}
	defer f.Close()
	if err := os.Remove(f.Name()); err != nil {
		return err
	}
	n, err := io.Copy(f, io.LimitReader(pack, maxPack+1))
	switch {
	case err != nil:
		return fmt.Errorf("transfer: %w", err)
	case n > maxPack:
		return fmt.Errorf("more than %d MiB would have to be fetched, which is refused: keep large files out of the repository that holds the designs", maxPack>>20)
	}
	if err := rewound(f, checkPack); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// First record what is missing. If the process died with only the objects
	// stored, the server would assume that their history is here.
	if err := s.addShallow(shallow); err != nil {
		return err
	}
	return rewound(f, func(f io.Reader) error { return packfile.UpdateObjectStorage(s.objects, f) })
}

func rewound(f *os.File, use func(io.Reader) error) error {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return use(f)
}

// checkPack refuses a pack that would take too much memory when unpacked. It
// checks the stated sizes of all objects before any is unpacked. The library
// inflates no object beyond its stated size.
func checkPack(pack io.Reader) error {
	scan := packfile.NewScanner(struct{ io.Reader }{pack})
	_, count, err := scan.Header()
	switch {
	case errors.Is(err, packfile.ErrEmptyPackfile):
		return errors.New("the server sent nothing")
	case err != nil:
		return err
	case count > maxObjects:
		return fmt.Errorf("%d objects would have to be fetched; more than %d are refused", count, maxObjects)
	}
	for range count {
		if err := checkObject(scan); err != nil {
			return err
		}
	}
	return nil
}

func checkObject(scan *packfile.Scanner) error {
	h, err := scan.NextObjectHeader()
	if err != nil {
		return err
	}
	if h.Length > MaxObject {
		return tooLarge(uint64(h.Length))
	}
	var start prefix
	if _, _, err := scan.NextObject(&start); err != nil {
		return err
	}
	if h.Type != plumbing.OFSDeltaObject && h.Type != plumbing.REFDeltaObject {
		return nil
	}
	// A delta begins with the sizes of its base and of its result as
	// little-endian base-128 numbers (gitformat-pack(5)).
	_, n := binary.Uvarint(start.bytes)
	size, m := binary.Uvarint(start.bytes[max(n, 0):])
	switch {
	case n <= 0 || m <= 0:
		return errors.New("the server sent a malformed delta")
	case size > MaxObject:
		return tooLarge(size)
	}
	return nil
}

func tooLarge(size uint64) error {
	return fmt.Errorf("a file of %d MiB is in the repository; more than %d MiB are refused: keep images and other large files elsewhere and name them by URL and digest", size>>20, MaxObject>>20)
}

// prefix keeps the first bytes written to it.
type prefix struct{ bytes []byte }

func (p *prefix) Write(b []byte) (int, error) {
	if room := 2*binary.MaxVarintLen64 - len(p.bytes); room > 0 {
		p.bytes = append(p.bytes, b[:min(room, len(b))]...)
	}
	return len(b), nil
}
