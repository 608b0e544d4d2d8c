// Package serve answers over HTTP for as long as a daemon runs.
package serve

import (
	"context"
	"net"
	"net/http"
	"time"
)

// closeTimeout is how long answers under way may take when the daemon ends.
const closeTimeout = 5 * time.Second

// Until answers on a listener until the context ends, which is no error. Answers
// that are under way then may end, for a while.
func Until(ctx context.Context, srv *http.Server, l net.Listener) error {
	closed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(closed)
		shutDown(ctx, srv)
	})
	if err := srv.Serve(l); stop() {
		return err
	}
	<-closed
	return nil
}

func shutDown(ctx context.Context, srv *http.Server) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	if srv.Shutdown(ctx) != nil {
		srv.Close()
	}
}
