//! Partitions between sentinels and servers. Sentinels and replicas are shut out as users, so all other clients still reach all
//! servers, which must have been started with a password: without one, Redis admits every user.

use redis::Connection;

use super::{INSIDER_PASSWORD, INSIDERS, MASTER_NAME, Sentinels};

impl Sentinels {
    /// Cuts a server off from the sentinels and the other servers.
    ///
    /// # Panics
    ///
    /// If there is no password, or the server does not answer, like everything here.
    pub fn isolate(&self, index: usize) {
        for user in INSIDERS {
            self.shut_out(index, user);
        }
    }

    /// Cuts a server off from the sentinels alone: those who replicate from it go on.
    ///
    /// # Panics
    ///
    /// As [`isolate`](Self::isolate).
    pub fn cut_sentinels_off(&self, index: usize) {
        let [sentinel, _] = INSIDERS;
        self.shut_out(index, sentinel);
    }

    /// Ends the replication from a master, which the sentinels go on reaching.
    ///
    /// # Panics
    ///
    /// As [`isolate`](Self::isolate).
    pub fn cut_replicas_off(&self, master: usize) {
        let [_, replica] = INSIDERS;
        self.shut_out(master, replica);
    }

    /// Ends the replication from a master to one of its replicas. Others keep the connections that they have.
    ///
    /// # Panics
    ///
    /// As [`isolate`](Self::isolate), and if it has no connection to its master.
    pub fn cut_replica_off(&self, master: usize, replica: usize) {
        let list: String = redis::cmd("CLIENT")
            .arg(&["LIST", "TYPE", "MASTER"])
            .query(&mut self.redis.server(replica).connection())
            .expect("the replica lists its connections");
        let address = list
            .split_whitespace()
            .find_map(|field| field.strip_prefix("laddr="))
            .expect("the replica is connected to its master");
        let mut connection = self.login(master);
        let [_, user] = INSIDERS;
        acl(&mut connection, user, "off");
        redis::cmd("CLIENT")
            .arg(&["KILL", "ADDR", address])
            .exec(&mut connection)
            .expect("the master ends the connection");
    }

    /// Lets all clients reach a server again.
    ///
    /// # Panics
    ///
    /// As [`isolate`](Self::isolate).
    pub fn rejoin(&self, index: usize) {
        let mut connection = self.login(index);
        for user in INSIDERS {
            acl(&mut connection, user, "on");
        }
        // Sentinels keep a connection on which their login was refused for 15 seconds, unless they are told of another one.
        for sentinel in &self.sentinels {
            redis::cmd("SENTINEL")
                .arg(&["SET", MASTER_NAME, "auth-pass", INSIDER_PASSWORD])
                .exec(&mut sentinel.connection())
                .expect("the sentinel changes a login");
        }
    }

    fn shut_out(&self, index: usize, user: &str) {
        let mut connection = self.login(index);
        acl(&mut connection, user, "off");
        redis::cmd("CLIENT")
            .arg(&["KILL", "USER", user])
            .exec(&mut connection)
            .expect("the server ends connections");
    }

    fn login(&self, index: usize) -> Connection {
        assert!(
            self.options.redis_password.is_some(),
            "nobody can be shut out of servers without a password: start with redis_password"
        );
        self.redis.server(index).connection()
    }
}

fn acl(connection: &mut Connection, user: &str, rule: &str) {
    redis::cmd("ACL")
        .arg(&["SETUSER", user, rule])
        .exec(connection)
        .expect("the server changes a user");
}
