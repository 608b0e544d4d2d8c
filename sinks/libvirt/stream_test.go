package libvirt

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	golibvirt "github.com/digitalocean/go-libvirt"

	"github.com/slipway-gitops/slipway/engine/driver"
)

// daemon is what is needed of libvirt's daemon for a transfer. answer gives what
// it says to each packet of the stream; nil for nothing.
func daemon(t *testing.T, answer func(p packet) *packet) *hypervisor {
	return &hypervisor{opts: New(Options{}).opts, address: address{driver: "qemu:///system"}, dial: func(context.Context) (net.Conn, error) {
		ours, theirs := net.Pipe()
		t.Cleanup(func() { ours.Close(); theirs.Close() })
		go serveTransfer(theirs, answer)
		return ours, nil
	}}
}

func serveTransfer(conn net.Conn, answer func(p packet) *packet) {
	for {
		var head [rpcHeader]byte
		if _, err := io.ReadFull(conn, head[:]); err != nil {
			return
		}
		h := uints(head[:])
		p := packet{h[3], h[4], h[6], make([]byte, h[0]-rpcHeader)}
		if _, err := io.ReadFull(conn, p.payload); err != nil {
			return
		}
		reply := &packet{p.procedure, typeReply, statusOK, xdr{}.uint(0)}
		if p.kind == typeStream {
			reply = answer(p)
		}
		if reply == nil {
			continue
		}
		if !say(conn, h[5], *reply) {
			return
		}
	}
}

// say sends a packet that answers the call of this serial; it tells whether there
// is still someone to read it.
func say(conn net.Conn, serial uint32, p packet) bool {
	head := xdr{}.uint(uint32(rpcHeader + len(p.payload))).uint(rpcProgram).uint(rpcVersion).uint(p.procedure).uint(p.kind).uint(serial).uint(p.status)
	_, err := conn.Write(append(head, p.payload...))
	return err == nil
}

// saying is an error of libvirt's.
func saying(message string) *packet {
	return &packet{procUpload, typeStream, statusError, xdr{}.uint(uint32(golibvirt.ErrSystemError)).uint(18).uint(1).string(message).uint(2)}
}

func put(t *testing.T, h *hypervisor, from io.Reader, length int64) (int64, error, error) {
	t.Helper()
	s := &storage{h: h}
	return s.upload(t.Context(), golibvirt.StorageVol{Pool: "default", Name: "v", Key: "/v"}, from, 0, length)
}

func TestUpload(t *testing.T) {
	var got bytes.Buffer
	h := daemon(t, func(p packet) *packet {
		got.Write(p.payload)
		if p.status == statusOK {
			return &packet{procUpload, typeStream, statusOK, nil}
		}
		return nil
	})
	written, broken, err := put(t, h, bytes.NewReader(digits), int64(len(digits)))
	if err != nil || broken != nil || written != int64(len(digits)) || !bytes.Equal(got.Bytes(), digits) {
		t.Errorf("wrote %d, %v, %v", written, broken, err)
	}
}

// A pool that is full says so at some packet, or at the end.
func TestUploadRefused(t *testing.T) {
	for _, at := range []uint32{statusContinue, statusOK} {
		h := daemon(t, func(p packet) *packet {
			if p.status == at {
				return saying("cannot write data: No space left on device")
			}
			return nil
		})
		_, _, err := put(t, h, bytes.NewReader(digits), int64(len(digits)))
		if err == nil || !strings.Contains(err.Error(), "No space left on device") {
			t.Errorf("got %v", err)
		}
	}
}

// What came before the source broke off is written and confirmed.
func TestUploadBroken(t *testing.T) {
	finished := false
	h := daemon(t, func(p packet) *packet {
		if p.status == statusOK {
			finished = true
			return &packet{procUpload, typeStream, statusOK, nil}
		}
		return nil
	})
	trouble := errors.New("trouble")
	written, broken, err := put(t, h, io.MultiReader(bytes.NewReader(digits[:1000]), failing{trouble}), int64(len(digits)))
	if written != 1000 || !errors.Is(broken, trouble) || err != nil || !finished {
		t.Errorf("wrote %d, %v, %v", written, broken, err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func TestUploadToSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := daemon(t, func(packet) *packet { return nil })
		began := time.Now()
		_, _, err := put(t, h, bytes.NewReader(digits), int64(len(digits)))
		if !errors.Is(err, driver.ErrUnreachable) || !strings.Contains(err.Error(), "moved no byte") {
			t.Errorf("got %v", err)
		}
		if took := time.Since(began); took > 3*quiet {
			t.Errorf("it took %s", took)
		}
	})
}

// An upload sends no further packet after the end of the term, neither in its middle nor its last.
func TestUploadAfterTheEndOfTheTerm(t *testing.T) {
	const handshake = 3 // and the call that begins the upload
	for n, through := 0, false; !through; n++ {
		synctest.Test(t, func(t *testing.T) {
			var came, asked atomic.Int32
			s := &storage{h: daemon(t, func(p packet) *packet {
				came.Add(1)
				if p.status == statusOK {
					return &packet{procUpload, typeStream, statusOK, nil}
				}
				return nil
			})}
			over := errors.New("the lease of term 3 could not be renewed in time")
			ctx := driver.WhileAllowed(t.Context(), func() error {
				if int(asked.Add(1)) > n {
					return over
				}
				return nil
			})
			began := time.Now()
			_, _, err := s.upload(ctx, golibvirt.StorageVol{}, bytes.NewReader(digits), 0, int64(len(digits)))
			synctest.Wait()
			if through = err == nil; through {
				if n < handshake+6 {
					t.Errorf("got through with %d packets", n)
				}
				return
			}
			if !errors.Is(err, driver.ErrInterrupted) || errors.Is(err, driver.ErrUnreachable) || !errors.Is(err, over) || time.Since(began) > 0 {
				t.Errorf("after %d packets and %s: %v", n, time.Since(began), err)
			}
			if want := max(0, n-handshake); int(came.Load()) != want {
				t.Errorf("%d packets of content came, want %d", came.Load(), want)
			}
		})
	}
}

func TestUploadCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		s := &storage{h: daemon(t, func(packet) *packet { return nil })}
		began := time.Now()
		_, _, err := s.upload(ctx, golibvirt.StorageVol{}, bytes.NewReader(digits), 0, int64(len(digits)))
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 2*time.Second {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
	})
}

func FuzzRemoteError(f *testing.F) {
	f.Add([]byte(saying("no").payload))
	f.Add([]byte{})
	f.Add([]byte(xdr{}.uint(38).uint(18).uint(1).uint(1 << 31)))
	f.Fuzz(func(t *testing.T, b []byte) {
		var said golibvirt.Error
		if err := remoteError(b); !errors.As(err, &said) {
			t.Errorf("got %v", err)
		}
		if n := len(uints(b)); n != len(b)/4 || n > 0 && uints(b)[0] != binary.BigEndian.Uint32(b) {
			t.Errorf("read %d numbers", n)
		}
	})
}

// A daemon that forgot a read, or sent a part of it, is asked again; one that is
// always silent is left in the end.
func TestDownloadAgain(t *testing.T) {
	for name, c := range map[string]struct {
		asked   int // how many reads go wrong
		reads   int
		wrong   []byte // what is sent then; nil for nothing at all
		refused string
	}{
		"at once":           {reads: 1},
		"forgotten":         {asked: 1, reads: 2},
		"a part":            {asked: 2, reads: 3, wrong: digits[:10]},
		"always silent":     {asked: 9, reads: mostDownloads, refused: "moved no byte of a volume for 10s"},
		"always too little": {asked: 9, reads: mostDownloads, wrong: digits[:10], refused: "sent 10 of 1000 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				reads := 0
				h := &hypervisor{opts: New(Options{}).opts, address: address{driver: "qemu:///system"}, dial: func(context.Context) (net.Conn, error) {
					ours, theirs := net.Pipe()
					t.Cleanup(func() { ours.Close(); theirs.Close() })
					reads++
					content := digits[:1000]
					if reads <= c.asked {
						content = c.wrong
					}
					go serveDownload(theirs, content)
					return ours, nil
				}}
				s := &storage{h: h}
				got, err := s.download(t.Context(), golibvirt.StorageVol{Pool: "default", Name: "v", Key: "/v"}, 0, 1000)
				if reads != c.reads {
					t.Errorf("it was read %d times, want %d", reads, c.reads)
				}
				if c.refused == "" && (err != nil || !bytes.Equal(got, digits[:1000])) {
					t.Errorf("got %d bytes, %v", len(got), err)
				}
				if c.refused != "" && (!errors.Is(err, driver.ErrUnreachable) || !strings.Contains(err.Error(), c.refused)) {
					t.Errorf("got %v", err)
				}
			})
		})
	}
}

// serveDownload answers every call, and sends the content once a volume is read;
// nil is a daemon that forgets to.
func serveDownload(conn net.Conn, content []byte) {
	for {
		var head [rpcHeader]byte
		if _, err := io.ReadFull(conn, head[:]); err != nil {
			return
		}
		h := uints(head[:])
		if _, err := io.CopyN(io.Discard, conn, int64(h[0]-rpcHeader)); err != nil {
			return
		}
		answers := []packet{{h[3], typeReply, statusOK, xdr{}.uint(0)}}
		if h[3] == procDownload && content != nil {
			answers = append(answers, packet{h[3], typeStream, statusContinue, content}, packet{h[3], typeStream, statusOK, nil})
		}
		for _, a := range answers {
			if !say(conn, h[5], a) {
				return
			}
		}
	}
}
