/**
 * Organizations, keys, projects, endpoints, destinations, audit.
 * The triggers push every committed change of an endpoint or a destination on channel `relay_config`,
 * whoever made it; the payload is "<endpoint id> <token> <destination id or ->" (well under NOTIFY's 8,000 bytes).
 */
export const CONFIGURATION_SQL = /* sql */ `
CREATE TABLE organizations (
  id text PRIMARY KEY,
  name text NOT NULL CONSTRAINT organizations_name UNIQUE,
  created_at timestamptz NOT NULL
);

CREATE TABLE api_keys (
  id text PRIMARY KEY,
  org_id text NOT NULL REFERENCES organizations (id),
  public_part text NOT NULL,
  key_hash bytea NOT NULL CONSTRAINT api_keys_hash UNIQUE,
  scopes text[] NOT NULL,
  created_at timestamptz NOT NULL,
  revoked_at timestamptz
);
CREATE INDEX api_keys_by_org ON api_keys (org_id, created_at DESC);

CREATE TABLE projects (
  id text PRIMARY KEY,
  org_id text NOT NULL REFERENCES organizations (id),
  name text NOT NULL,
  slug text NOT NULL,
  created_at timestamptz NOT NULL,
  deleted_at timestamptz
);
CREATE UNIQUE INDEX projects_slug ON projects (org_id, slug) WHERE deleted_at IS NULL;
CREATE INDEX projects_page ON projects (org_id, created_at DESC, id DESC) WHERE deleted_at IS NULL;

CREATE TABLE endpoints (
  id text PRIMARY KEY,
  org_id text NOT NULL REFERENCES organizations (id),
  project_id text NOT NULL REFERENCES projects (id),
  token text NOT NULL CONSTRAINT endpoints_token UNIQUE,
  name text NOT NULL,
  provider text NOT NULL,
  verification_method text NOT NULL,
  method_is_explicit boolean NOT NULL,
  status text NOT NULL CHECK (status IN ('active', 'paused', 'disabled')),
  sealed bytea NOT NULL,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL,
  deleted_at timestamptz
);
CREATE INDEX endpoints_page ON endpoints (project_id, created_at DESC, id DESC) WHERE deleted_at IS NULL;

CREATE TABLE destinations (
  id text PRIMARY KEY,
  org_id text NOT NULL REFERENCES organizations (id),
  endpoint_id text NOT NULL REFERENCES endpoints (id),
  name text NOT NULL,
  receiver_url text NOT NULL,
  forward_original_signature boolean NOT NULL,
  status text NOT NULL CHECK (status IN ('active', 'paused', 'disabled')),
  retry_max_attempts integer NOT NULL,
  retry_backoff text NOT NULL,
  rate_limit_max bigint,
  rate_limit_window text,
  sealed bytea NOT NULL,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL,
  deleted_at timestamptz,
  CHECK ((rate_limit_max IS NULL) = (rate_limit_window IS NULL))
);
CREATE INDEX destinations_page ON destinations (endpoint_id, created_at DESC, id DESC) WHERE deleted_at IS NULL;

CREATE TABLE audit_log (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  org_id text NOT NULL,
  actor text NOT NULL,
  action text NOT NULL,
  target_id text NOT NULL,
  at timestamptz NOT NULL,
  detail jsonb NOT NULL
);
CREATE INDEX audit_log_by_org ON audit_log (org_id, at DESC);

CREATE TABLE settings (
  name text PRIMARY KEY,
  value bytea NOT NULL
);

CREATE FUNCTION relay_notify_endpoint() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_notify('relay_config', NEW.id || ' ' || NEW.token || ' -');
  RETURN NULL;
END $$;
CREATE TRIGGER endpoints_changed AFTER INSERT OR UPDATE ON endpoints
  FOR EACH ROW EXECUTE FUNCTION relay_notify_endpoint();

CREATE FUNCTION relay_notify_destination() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_notify('relay_config', NEW.endpoint_id || ' '
    || (SELECT token FROM endpoints WHERE id = NEW.endpoint_id) || ' ' || NEW.id);
  RETURN NULL;
END $$;
CREATE TRIGGER destinations_changed AFTER INSERT OR UPDATE ON destinations
  FOR EACH ROW EXECUTE FUNCTION relay_notify_destination();
`;
