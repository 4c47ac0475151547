package dynamotest_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"flunq.io/flunq/engine/dynamo/dynamotest"
)

// What answers is an emulator, which wants requests to be signed.
func TestEach(t *testing.T) {
	t.Parallel()
	dynamotest.Each(t, func(t *testing.T, endpoint string) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, endpoint, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/x-amz-json-1.0")
		request.Header.Set("X-Amz-Target", "DynamoDB_20120810.ListTables")
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if body, err := io.ReadAll(response.Body); err != nil || !strings.Contains(string(body), "MissingAuthenticationToken") {
			t.Errorf("the answer is %s, %v: want MissingAuthenticationToken", body, err)
		}
	})
}
